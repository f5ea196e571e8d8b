import { createRequire } from 'node:module'
import { expect, it } from 'vitest'
import { withMemoryLimit } from '../../server/code-runtime/wasm-memory-limit.js'

interface Wasm {
  memory: { buffer: ArrayBuffer; grow(pages: number): number }
}
interface WasmNames {
  Module: new (bytes: Uint8Array) => object
  Instance: new (module: object) => { exports: Wasm }
}
const wasm = (globalThis as unknown as { WebAssembly: WasmNames }).WebAssembly

const header = [0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0]
/** A table before it; 200 pages, which take two bytes; and the memory's export. */
const module = Uint8Array.from([
  ...header,
  ...[4, 4, 1, 0x70, 0, 1],
  ...[5, 4, 1, 0, 0xc8, 0x01],
  ...[7, 10, 1, 6, ...Buffer.from('memory'), 2, 0]
])

it('a module’s memory grows to the limit, and not beyond', () => {
  const memoryOf = (bytes: Uint8Array) => new wasm.Instance(new wasm.Module(bytes)).exports.memory
  expect(memoryOf(module).grow(200)).toBe(200)
  const limited = memoryOf(withMemoryLimit(module, 300 * 65_536))
  expect(limited.grow(100)).toBe(200)
  expect(() => limited.grow(1)).toThrow(RangeError)
  expect(limited.buffer.byteLength).toBe(300 * 65_536)
})

it('a module without a memory stays as it is', () => {
  expect([...withMemoryLimit(Uint8Array.from(header), 65_536)]).toEqual(header)
})

it('the module of the type stripper is one whose memory can be limited', () => {
  const { Module } = wasm
  wasm.Module = class extends Module {
    constructor(bytes: Uint8Array) {
      super(withMemoryLimit(bytes, 64 * 1024 * 1024))
    }
  }
  try {
    const require = createRequire(import.meta.url)
    delete require.cache[require.resolve('@swc/wasm-typescript')]
    const stripper = require('@swc/wasm-typescript') as {
      __wasm: Wasm
      transformSync(text: string, options: { mode: string }): { code: string }
    }
    expect(stripper.transformSync('const a: 1 = 1', { mode: 'strip-only' }).code).toBe('const a    = 1')
    expect(() => stripper.transformSync(`let a: any${';'.repeat(1_500_000)}`, { mode: 'strip-only' })).toThrow()
    expect(stripper.__wasm.memory.buffer.byteLength).toBeLessThanOrEqual(64 * 1024 * 1024)
  } finally {
    wasm.Module = Module
  }
})
