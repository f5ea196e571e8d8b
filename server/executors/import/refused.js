/** A document is not imported at all: its message is a whole sentence, for whoever sent it. */
export class Refused extends Error {
  /** @override */
  name = 'Refused'
}
