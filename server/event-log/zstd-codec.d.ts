// The package ships no types; these are the parts used here.
declare module 'zstd-codec' {
  export interface SimpleCodec {
    compress(bytes: Uint8Array, level?: number): Uint8Array | null
    /** `null` for a frame without a content size and for concatenated frames; throws a string when out of memory. */
    decompress(bytes: Uint8Array): Uint8Array | null
  }
  export interface StreamingCodec {
    /** Of a corrupt frame it gives some of the bytes, or none, without an error. */
    decompress(bytes: Uint8Array): Uint8Array | null
  }
  interface Binding {
    Simple: new () => SimpleCodec
    Streaming: new () => StreamingCodec
  }
  const zstdCodec: { ZstdCodec: { run(ready: (binding: Binding) => void): void } }
  export default zstdCodec
}

/** How the package loads its binary: an object that its script makes a module of. */
declare module 'zstd-codec/lib/module.js' {
  export interface Binding {
    instantiateWasm(
      imports: WebAssembly.Imports,
      receive: (instance: WebAssembly.Instance) => void
    ): WebAssembly.Exports
    onRuntimeInitialized(): void
  }
  export let run: (ready: (binding: Binding) => void) => void
}

/** Of the DOM's types, which Node's do not have. */
declare namespace WebAssembly {
  const Module: new (binary: Uint8Array) => object
  const Instance: new (module: object, imports: Imports) => Instance
}
