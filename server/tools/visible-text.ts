import type { JsonObject, JsonValue } from '../json/lossless.ts'

/**
 * Controls, and what a reader cannot see: marks that turn the direction of text, and characters without width, among them the tags that
 * spell out a whole hidden text. Tabs and line ends are what they seem, and so are the two selectors of an emoji's look.
 */
const unseen =
  // oxlint-disable-next-line no-control-regex -- controls are what is looked for
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u2028\u2029\ufff9-\ufffb]|\r(?!\n)|(?![\ufe0e\ufe0f])\p{Default_Ignorable_Code_Point}/gu

/** Shows what is not seen as `\u{202e}`: whoever approves a call by its card must read what would run (reliability.md §1.10). */
export const visibleText = (text: string): string =>
  text.replaceAll(unseen, (sign) => `\\u{${sign.codePointAt(0)?.toString(16)}}`)

/** A call's card with all that is shown as text made visible; `rawInput` is data, and stays as it is. */
export function withVisibleText({ content, diffs, locations, ...card }: JsonObject): JsonObject {
  const part = (key: string, list: JsonValue | undefined) =>
    Array.isArray(list) ? { [key]: list.map(visibleStrings) } : {}
  return {
    ...visibleStrings(card),
    ...part('content', content),
    ...part('diffs', diffs),
    ...part('locations', locations)
  }
}

function visibleStrings<T extends JsonValue>(value: T): T {
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, member]) => [key, typeof member === 'string' ? visibleText(member) : member])
  ) as T
}
