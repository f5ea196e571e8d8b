import { describe, expect, it } from 'vitest'
import { CommandLine, allows, concerns, readWords } from '../../../plugins/policies/permissions-command.ts'
import { commandsIn } from '../../../plugins/policies/permissions-shell-commands.ts'

type Words = Parameters<typeof readWords>[0]

const fail = (path: string, why: string): never => {
  throw new Error(`${path}: ${why}`)
}
const allowed = (words: Words, text: unknown): boolean => allows(readWords(words, true, fail), new CommandLine(text))
const concerned = (words: Words, text: unknown): boolean =>
  concerns(readWords(words, false, fail), new CommandLine(text))

describe('an allow for a command', () => {
  const log: Words = ['git', ['log', 'show'], { rest: ['--oneline', '-n*', 'HEAD*', '*.ts'] }]

  it.each([
    'git log',
    'git show HEAD~3',
    '  git   log --oneline -n5 ',
    "git log 'a b.ts'",
    'git log "a b.ts" --oneline',
    "git log src/'x y'.ts",
    'git log HEAD^'
  ])('takes %j', (text) => {
    expect(allowed(log, text)).toBe(true)
  })

  it.each([
    [
      'an operator',
      'git log;id',
      'git log && id',
      'git log | id',
      'git log & id',
      'git log||id',
      '(git log)',
      '{ git log; }'
    ],
    ['a line', 'git log\nid', 'git log\n', '\ngit log', 'git log\r', 'git log \\\n--oneline', 'git log\tHEAD'],
    [
      'an expansion',
      'git log $X',
      'git log $(id)',
      'git log `id`',
      'git log "$X.ts"',
      'git log {a,b}.ts',
      'git log *.ts',
      'git log ~.ts'
    ],
    [
      'more expansions',
      "git log $'a.ts'",
      'git log $"a.ts"',
      'git log HEAD$((1))',
      'git log [a].ts',
      'git log ?.ts',
      'git log a=~.ts'
    ],
    ['a redirection', 'git log > x', 'git log 2>&1', 'git log <x', 'git log <<E\nE', 'git log <<<x', 'git log <(id)'],
    ['an assignment', 'A=1 git log', 'PATH=. git log'],
    ['a comment', 'git log #', 'git log # --oneline', '# git log'],
    ['an escape', 'git lo\\g', '\\git log', 'git log "a\\"b.ts"', 'git log HEAD!'],
    [
      'a wrapper',
      'env git log',
      'sudo git log',
      'command git log',
      'time git log',
      'nohup git log',
      'busybox git log',
      '! git log'
    ],
    ['a text', 'sh -c "git log"', 'eval git log', "bash -lc 'git log'", 'xargs git log', 'exec git log'],
    ['another command', 'git', 'git push', 'git logs', '/usr/bin/git log', './git log', '"git" log', 'Git log', ''],
    ['another word', 'git log -p', 'git log --oneline=x', 'git log HEAD --output=x', 'git -C x log', 'git log x'],
    [
      'what only looks alike',
      'git\u00a0log',
      'git\u2003log',
      'git\u3000log',
      'git log\u0000',
      'ɡit log',
      'git log \ud800.ts',
      'git log\u200b'
    ]
  ])('takes no text with %s', (_what, ...texts) => {
    for (const text of texts) expect([text, allowed(log, text)]).toEqual([text, false])
  })

  it('is for exactly its words, unless it says what the rest may be', () => {
    expect(allowed(['ls'], 'ls')).toBe(true)
    expect(allowed(['ls'], 'ls -l')).toBe(false)
    expect(allowed(['ls', '-l'], 'ls')).toBe(false)
    expect(allowed(['ls', { rest: ['*'] }], 'ls')).toBe(true)
    expect(allowed(['ls', ''], "ls ''")).toBe(true)
  })

  it('takes a * for no option and no wrapper, unless the rule names them', () => {
    expect(allowed(['ls', { rest: ['*'] }], 'ls a b')).toBe(true)
    expect(allowed(['ls', { rest: ['*'] }], 'ls a -l')).toBe(false)
    expect(allowed(['ls', { rest: ['*'] }], "ls '-l'")).toBe(false)
    expect(allowed(['ls', { rest: ['*', '-l'] }], 'ls a -l')).toBe(true)
    expect(allowed(['ls', { rest: ['*', '-*'] }], 'ls --help -x')).toBe(true)
    expect(allowed(['find', { rest: ['*', '-*'] }], 'find . -name x')).toBe(true)
    expect(allowed(['find', { rest: ['*', '-*'] }], "find . -exec sh -c 'id' ';'")).toBe(false)
    expect(allowed(['find', { rest: ['*', '-*'] }], "find . -exec /usr/bin/env id ';'")).toBe(false)
    expect(allowed(['npm', 'exec', 'tsc'], 'npm exec tsc')).toBe(true)
  })

  it('is never for a text that is none, or too long', () => {
    for (const text of [undefined, null, 5, ['git', 'log']]) expect(allowed(['git', { rest: ['*'] }], text)).toBe(false)
    expect(allowed(['ls', { rest: ['*'] }], `ls ${'a '.repeat(40_000)}`)).toBe(false)
  })

  it.each<[Words, string]>([
    [['sudo', 'ls'], 'words[0]: "sudo" can run more than its words say, so no allow is for it'],
    [['/usr/bin/env'], 'words[0]: "/usr/bin/env" can run'],
    [[['ls', 'xargs']], 'words[0]: "xargs" can run'],
    [['if'], 'words[0]: "if" can run'],
    [['test', '*'], 'words[0]: "test" can run'],
    [['*'], 'words[0]: names the command'],
    [[{ rest: ['*'] }], 'words[0]: is the command itself'],
    [['ls', { rest: ['*'] }, 'x'], 'words[1]: stands for all'],
    [['ls', { some: ['-l'] }], 'words[1]: says nothing of the other words']
  ])('cannot be %j', (words, message) => {
    expect(() => readWords(words, true, fail)).toThrow(message)
  })
})

describe('a deny or ask for a command', () => {
  it.each([
    [
      'alone or in a list',
      'rm',
      'rm -rf /',
      'ls; rm x',
      'ls && rm x',
      'ls || rm',
      'ls & rm',
      'ls\nrm x',
      'ls | rm',
      'ls |& rm'
    ],
    [
      'in groups and loops',
      '(rm x)',
      '{ rm x; }',
      'if rm; then ls; fi',
      'if ls; then rm; fi',
      'for f in a b; do rm $f; done'
    ],
    [
      'in conditions',
      'while rm; do ls; done',
      'until ls; do rm; done',
      '! rm',
      'time rm',
      'time -p { rm; }',
      'if a; then b; elif rm; then c; fi'
    ],
    [
      'substituted',
      'echo $(rm x)',
      'echo `rm x`',
      'echo "$(rm x)"',
      'ls "`rm`"',
      'cat <(rm x)',
      'ls > >(rm)',
      'A=$(rm) ls',
      'A=`rm`',
      'echo <(ls)#; rm',
      'ls > >(ls)#; rm',
      'ls $(ls)#; rm',
      'jobs -x rm'
    ],
    [
      'nested',
      'echo $(ls $(ls "$(rm)"))',
      '(ls; (ls; (rm)))',
      'cat <<< $(rm)',
      'for f in $(rm); do ls; done',
      'ls > $(rm)'
    ],
    ['quoted', "'rm' x", '"rm" x', '\\rm x', "r'm' x", 'r"m"', 'r\\m', 'r\\\nm x', '""rm'],
    ['by its path', '/bin/rm x', './rm', '"/usr/bin/rm" x', 'sudo /bin/rm'],
    ['after an assignment', 'A=1 rm', 'A=1 B="x y" rm x', 'A+=1 rm'],
    ['after a redirection', '>f rm x', '2>&1 rm', '<<<x rm', '&>f rm', '<<E rm\nx\nE'],
    [
      'wrapped',
      'env rm',
      'env -i A=1 rm',
      'sudo -u root rm x',
      'nohup rm',
      'nice -n 5 rm',
      'timeout 5 rm',
      'xargs rm',
      'ls | xargs -n 1 rm'
    ],
    [
      'wrapped twice',
      'sudo env A=1 nohup rm',
      'exec rm',
      'exec -a x rm',
      'command rm',
      'command -p rm',
      'builtin command rm',
      'busybox rm'
    ],
    [
      'run by find',
      'find . -exec rm {} +',
      "find . -name x -exec rm -f {} ';'",
      'find . -execdir sudo rm {} \\;',
      'sudo find . -ok rm {} \\;'
    ],
    [
      'that find makes of the name of a file',
      "find bin -name rm -exec './{}' x ';'",
      "find /bin -name rm -exec nice {} x ';'",
      "sudo find bin -name rm -exec './{}' x ';'"
    ],
    ['behind a program that few know', 'choom -n 0 rm x', 'linux32 rm x', '/lib64/ld-linux-x86-64.so.2 /bin/rm x'],
    [
      'in a text',
      'sh -c rm',
      "bash -c 'ls; rm x'",
      'bash -lc "rm"',
      "sudo sh -c 'rm'",
      'sh -c "sh -c \\"sh -c rm\\""',
      "xargs sh -c 'rm'"
    ],
    ['evaluated', 'eval rm', "eval 'ls; rm x'", 'eval r"m" x', 'eval -- rm', "eval 'eval rm'", 'command eval rm'],
    [
      'after a here-document',
      'cat <<E\nx\nE\nrm',
      "cat <<'E'\n$(ls)\nE\nrm",
      'cat <<-E\n\tx\n\tE\nrm',
      'cat <<A <<B\nB\nA\nA\nB\nrm'
    ],
    ['with or without comments', 'ls # x\nrm', 'rm # x', 'ls #\\\nrm', 'ls x#y; rm']
  ])('finds one %s', (_where, ...texts) => {
    for (const text of texts) {
      expect([text, commandsIn(text) === undefined]).toEqual([text, false])
      expect([text, concerned(['rm'], text)]).toEqual([text, true])
    }
  })

  it.each([
    ...[
      'ls',
      'git rm x',
      'echo rm',
      'ls rm',
      'rmdir x',
      'ls "rm"',
      'ls # rm',
      '# rm',
      '',
      ' ',
      'echo "; rm"',
      "echo '$(rm)'",
      'echo \\; rm'
    ],
    ...[
      'cat <<E\nrm\nE',
      'cat <<E\n$x rm\nE',
      'ls > rm',
      'A=rm ls',
      'ls $X',
      'ls *',
      'ls ~/rm',
      'for f in rm a; do ls "$f"; done',
      'ls {rm,x}'
    ],
    ...[
      'sudo ls .',
      'find . -name rm',
      "find . -exec grep x {} ';'",
      "nice find . -exec grep x {} ';'",
      'env A=1 ls',
      'set -euo pipefail; ls',
      '[ -f rm ] && ls',
      'echo "${X:-rm}"'
    ],
    ...[
      'export A=1',
      'ls | xargs grep x',
      'xargs -n 1 ls',
      'grep ENV x',
      'printf %s rm',
      'sh -c "ls rm"',
      'eval ls rm',
      'rm\u00a0x',
      'rm\rx',
      'RM',
      'test -n x',
      'sudo systemctl enable x',
      "ls 'a\nrm'"
    ]
  ])('finds none in %j', (text) => {
    expect([text, concerned(['rm'], text)]).toEqual([text, false])
  })

  it.each([
    [
      'that is unknown',
      '$X',
      '"$X" -rf',
      '$X rm',
      '${X} x',
      '`ls`',
      '$(echo rm)',
      'r*',
      '/bin/r?',
      '{rm,-rf}',
      "$'rm'",
      '$"rm"',
      '~/x',
      'sudo $X'
    ],
    [
      'out of variables',
      '${X/a/b}',
      'ls ${X@P}',
      'ls ${a[$(rm)]}',
      'ls ${X:-$(rm)}',
      'ls ${X:=rm}',
      'ls ${!X}',
      'ls $((1))',
      'ls $[1]',
      '((1))'
    ],
    ['of a function', 'f() { rm; }', 'function f { rm; }', 'f () ( rm )', 'a=(rm)', 'a[1]=rm'],
    [
      'of syntax not read',
      'case x in x) rm;; esac',
      '[[ -f x ]]',
      'select x in a; do rm; done',
      'coproc rm',
      'for ((;;)); do rm; done',
      'for x do rm; done'
    ],
    [
      'that is broken',
      'ls "',
      "ls '",
      'ls $(',
      'ls `',
      'ls )',
      '(ls',
      'ls \\',
      'cat <<E',
      'cat <<E\nx',
      'ls >',
      'ls \0',
      'ls <',
      'echo `\\`rm\\``'
    ],
    [
      'of a file or the input',
      'source x',
      '. ./x',
      'bash x',
      'bash',
      'ls | sh',
      'sh -s',
      'bash <<< rm',
      'bash -x -c rm',
      'sh -c',
      'sh -c "$X"',
      'sh -c -e rm'
    ],
    [
      'of another interpreter',
      'zsh -c rm',
      'fish -c rm',
      'su -c rm',
      'script -c rm',
      'ssh host rm',
      'parallel rm',
      'watch rm',
      'flock f -c rm',
      'env -S "rm x"'
    ],
    [
      'of evaluating builtins',
      "trap 'rm' EXIT",
      "alias ls='rm'",
      'shopt -s expand_aliases',
      "let 'a[$(rm)]'",
      "test -v 'a[$(rm)]'",
      "printf -v 'a[$(rm)]' x"
    ],
    [
      'of more of them',
      'declare -i x',
      "read 'a[$(rm)]'",
      "unset 'a[$(rm)]'",
      'hash -p /bin/rm ls',
      'set -o history',
      'enable -f x ls',
      '[ "$X" -eq 1 ]'
    ],
    [
      'of variables that run',
      "PS4='$(rm)'",
      "export PS4='$(rm)'",
      'BASH_ENV=x sh -c ls',
      'read PS4',
      'for PS4 in x; do ls; done'
    ],
    [
      'of a file that find names',
      "find /bin -name rm -exec env {} x ';'",
      "find /bin -name rm -exec sh -c '{} x' ';'",
      "sudo find /bin -name rm -exec sh -c '{} x' ';'"
    ],
    ['that a program reads in its own way', "sg root 'rm x'", "strace -o '|rm x' true"],
    [
      'read by xargs',
      'xargs',
      'xargs env',
      'xargs -I{} {} x',
      'xargs -i rm',
      'xargs -oI% % x',
      'xargs --replace=X X',
      'xargs $X',
      'xargs sh',
      'sudo xargs'
    ],
    [
      'of a here-document that expands',
      'cat <<E\n$(rm)\nE',
      'cat <<E\n`rm`\nE',
      'cat <<E\nx\\\nE\nE',
      'cat <<$X\nx\n$X',
      'cat <<E $(ls\n)\nE'
    ],
    ['of another shell’s reading', 'sh -c "ls \\$\'x\'"', "sh -c 'ls &> f rm'", "dash -c 'cat <<< x'"]
  ])('takes a command %s for anything', (_what, ...texts) => {
    for (const text of texts) expect([text, concerned(['rm', '-rf', { some: ['/x'] }], text)]).toEqual([text, true])
  })

  it('takes a missing or overlong text for anything', () => {
    for (const text of [undefined, null, 5, ['ls'], `ls ${'a'.repeat(70_000)}`])
      expect(concerned(['rm'], text)).toBe(true)
  })

  it('takes more words than it names, unless it says what they are', () => {
    expect(concerned(['git', 'push'], 'git push --force')).toBe(true)
    expect(concerned(['git', 'push'], 'git')).toBe(false)
    expect(concerned(['git', 'push', { some: ['-f', '--force*'] }], 'git push origin --force-with-lease')).toBe(true)
    expect(concerned(['git', 'push', { some: ['-f'] }], 'git push origin')).toBe(false)
    expect(concerned(['git', 'push', { some: ['-f'] }], 'git push')).toBe(false)
    expect(concerned(['git', 'push', { some: ['-f'] }], 'git push "$@"')).toBe(true)
    expect(concerned(['git', { some: ['push'] }], 'git -C x push')).toBe(true)
    expect(concerned(['kill', { rest: ['-9', '1'] }], 'kill -9 1')).toBe(true)
    expect(concerned(['kill', { rest: ['-9', '1'] }], 'kill -9 2')).toBe(false)
    expect(concerned(['kill', { rest: ['-9', '1'] }], 'kill -9 $X')).toBe(true)
    expect(concerned(['git', 'push'], 'git $X')).toBe(true)
    expect(concerned(['git', 'push'], 'git log $X')).toBe(false)
    expect(concerned(['mkfs*'], 'mkfs.ext4 /dev/sda')).toBe(true)
    expect(concerned(['*', '--force'], 'x --force')).toBe(true)
  })

  it.each([
    ['evals', `sudo ${'eval '.repeat(400)}'${'a '.repeat(28_000)}'`],
    ['tildes', 'a~'.repeat(30_000)],
    ['equals signs', `aaaa-${'='.repeat(60_000)}`],
    ['prefixed words', `sudo ${'a '.repeat(30_000)}`],
    ['prefixed commands', `sudo ${'sudo '.repeat(12_000)}`],
    ['finds', `find ${'-exec find '.repeat(5_000)}`],
    ['parentheses', '('.repeat(60_000)],
    ['substitutions', '$('.repeat(30_000)],
    ['backquotes', '`'.repeat(60_000)],
    ['here-documents', 'cat <<E\n'.repeat(7_000)],
    ['words', 'a '.repeat(32_000)],
    ['quotes', '"a"\'b\''.repeat(10_000)]
  ])('reads 64 KiB of %s without getting lost', (_what, text) => {
    expect(typeof concerned(['rm', { some: ['x'] }], text)).toBe('boolean')
  })
})
