const secretName = /KEY|PASSWORD|SECRET|TOKEN/i
const managedName = /^TOOLWRIGHT_/i

/**
 * The environment of a child (backends.md §2): the server's own without what looks like a secret and without our managed
 * variables, then `explicit` over it, where `undefined` removes a name. So a credential passed on purpose arrives, an ambient one
 * never does.
 */
export function childEnvironment(
  explicit: Readonly<Record<string, string | undefined>> = {},
  own: NodeJS.ProcessEnv = process.env
): Record<string, string> {
  const inherited = Object.entries(own).filter(([name]) => !secretName.test(name) && !managedName.test(name))
  const entries = new Map([...inherited, ...Object.entries(explicit)])
  return Object.fromEntries([...entries].filter((entry): entry is [string, string] => entry[1] !== undefined))
}
