import { Type } from '@sinclair/typebox'

/** The section `metrics` (docs/metrics.md). */
export const metricsSettings = Type.Object({
  enabled: Type.Boolean({ default: true, description: 'Whether anything is counted, and `/metrics` is there.' }),
  public: Type.Boolean({ default: false, description: 'Whether `/metrics` needs no token, and answers any Host.' }),
  maxTools: Type.Integer({
    default: 100,
    minimum: 0,
    maximum: 10_000,
    description: 'Tools that have a label of their own; all others are counted as `other`.'
  })
})

/** The section `tracing` (docs/metrics.md). */
export const tracingSettings = Type.Object({
  enabled: Type.Boolean({
    default: false,
    description: 'Whether calls make OpenTelemetry spans; for the provider that a plugin of the operator’s registers.'
  })
})
