import type { Admission } from '../admission.ts'
import type { AdmissionLimits, LimitSet } from './limit-set.ts'
import type { Meter } from './meter.ts'
import type { Asker } from './meters.ts'
import { isAbove, limitName, type LimitName, ownerOf } from './refusal.ts'

/** One limit in force, as `GET /limits` shows it. */
export interface LimitInForce {
  limit: LimitName
  value: number
  /** Of a rate. */
  perMs?: number
  burst?: number
  /** Whose it is; the scope is absent where it is out of the asker's reach. */
  scope?: string
  tool?: string
  source: 'configuration' | 'request'
  /** How much of it is in use now; absent for what others share that the asker must not see. */
  used?: number
}

/** Every limit that a request of the asker, for whatever tool, has to pass: the server's first, then from the root scope down. */
export function explainLimits(
  admission: Admission,
  limits: AdmissionLimits,
  asker: Asker,
  now: number
): LimitInForce[] {
  const { meters } = admission
  const ofToken = asker.token === undefined ? [] : [meters.ofToken(asker.token)]
  const inForce: LimitInForce[] = [
    { limit: 'calls.maxConcurrent', value: limits.maxConcurrent, source: 'configuration', used: admission.running },
    { limit: 'calls.maxQueued', value: limits.maxQueued, source: 'configuration', used: admission.waiting }
  ]
  for (const scope of asker.scope.chain) {
    const set = meters.setFor(scope)
    for (const meter of meters.ofScope(scope)) {
      // What is only of a scope itself is not in the way of those below it.
      if (meter.of.kind === 'own' && scope !== asker.scope) continue
      inForce.push(...membersOf(meter, asker, now, (member) => isSet(set, meter, member)))
    }
  }
  return [...inForce, ...ofToken.flatMap((meter) => membersOf(meter, asker, now, () => false))]
}

function isSet(set: ReturnType<Admission['meters']['setFor']>, { of }: Meter, member: keyof LimitSet): boolean {
  if (set === undefined || of.kind === 'own') return false
  if (of.tool === undefined) return Object.hasOwn(set, member)
  return set.tools !== undefined && Object.hasOwn(set.tools, of.tool)
}

function membersOf(
  meter: Meter,
  asker: Asker,
  now: number,
  isRequested: (member: keyof LimitSet) => boolean
): LimitInForce[] {
  const { limits, of } = meter
  const isShared = of.scope !== undefined && isAbove(of.scope, asker)
  const show = (
    member: keyof LimitSet,
    value: number,
    used: number,
    more: Partial<LimitInForce> = {}
  ): LimitInForce => ({
    limit: limitName(meter, member === 'rates' ? 'rate' : member),
    value,
    ...more,
    ...ownerOf(meter, asker),
    source: isRequested(member) ? 'request' : 'configuration',
    ...(isShared ? {} : { used })
  })
  return [
    ...(limits.concurrency === undefined ? [] : [show('concurrency', limits.concurrency, meter.running)]),
    ...(limits.queue === undefined ? [] : [show('queue', limits.queue, meter.waiting)]),
    ...meter.use(now).map(({ rate, used }) =>
      // A thousandth of a request is more than anybody asks for.
      show('rates', rate.requests, Math.round(used * 1000) / 1000, {
        perMs: rate.perMs,
        ...(rate.burst === undefined ? {} : { burst: rate.burst })
      })
    )
  ]
}
