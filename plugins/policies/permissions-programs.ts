/** Words that are no program where a command begins: what bash does with the words after them is not one simple command. */
export const reservedWords: ReadonlySet<string> = new Set(
  '! case coproc do done elif else esac fi for function if in select then time until while { } [[ ]]'.split(' ')
)

/** Reserved words after which a command begins as before them. */
export const commandFollows: ReadonlySet<string> = new Set('! do done elif else fi if then until while { }'.split(' '))

/** Shells of which `-c` is known to take a text that reads like bash’s. */
export const readableShells: ReadonlySet<string> = new Set('ash bash dash sh'.split(' '))

/** Programs that run the rest of their words as a command, as it stands. */
export const prefixPrograms: ReadonlySet<string> = new Set(
  (
    'aa-exec builtin busybox bwrap cgexec choom chpst chronic chroot chrt command cpulimit dbus-run-session doas dumb-init ' +
    'eatmydata env envdir exec fakeroot faketime firejail gosu i386 ifne ionice jobs ld-linux-aarch64.so.1 ld-linux-x86-64.so.2 ' +
    'ld.so linux32 linux64 logsave ltrace nice nohup nsenter numactl pkexec prlimit proot rlwrap run0 runcon setarch setpriv ' +
    'setsid setuidgid softlimit ssh-agent start-stop-daemon stdbuf su-exec sudo systemd-run taskset time timeout tini toybox ' +
    'uclampset unbuffer unshare valgrind x86_64 xargs xvfb-run'
  ).split(' ')
)

/** Of those, the ones that run builtins too. */
export const builtinPrefixes: ReadonlySet<string> = new Set('builtin command jobs time'.split(' '))

/** Programs that run what only they can tell: another shell’s text, the words joined, a file, or what they read. */
export const opaquePrograms: ReadonlySet<string> = new Set(
  'at batch capsh csh entr expect fish flock ksh mksh newgrp parallel rbash runuser screen script sg ssh strace su tcsh tmux watch yash zsh'.split(
    ' '
  )
)

/** Builtins that do so, or that change what words mean later on. */
export const opaqueBuiltins: ReadonlySet<string> = new Set(
  '. alias bind compgen complete declare enable fc hash history let local mapfile readarray readonly shopt source trap typeset'.split(
    ' '
  )
)

/** Builtins that evaluate a subscript in their words, and with it whatever command is substituted there: `test -v 'a[$(id)]'`. */
export const subscriptBuiltins: ReadonlySet<string> = new Set('[ export getopts printf read test unset wait'.split(' '))

/** What never runs by an allow for words: it does not end at its own words. */
export const neverByWords: ReadonlySet<string> = new Set([
  ...reservedWords,
  ...readableShells,
  ...prefixPrograms,
  ...opaquePrograms,
  ...opaqueBuiltins,
  ...subscriptBuiltins,
  'eval',
  'set'
])

/** Words of other programs that stand for a shell or a wrapper wherever they are: `find -exec sh`, `git bisect run env`. */
export const wrapperWords: ReadonlySet<string> = new Set(
  'ash bash busybox csh dash doas env eval exec fish ksh mksh nohup rbash runuser setsid sh su sudo tcsh toybox xargs yash zsh'.split(
    ' '
  )
)

export const baseName = (word: string): string => word.slice(word.lastIndexOf('/') + 1)
