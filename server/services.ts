/**
 * What a plugin may name in `needs`, by name. Each seam merges itself in, beside the `decorate` call that provides it
 * (architecture.md §4).
 */
export interface Services {}
