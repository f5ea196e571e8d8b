import type { ContentBlock } from '../tools/definition.ts'

/** Content of one text block: what most tools render (core.md §1). */
export const text = (content: string): ContentBlock[] => [{ type: 'text', text: content }]
