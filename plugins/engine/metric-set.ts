import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import { type MetricName, type MetricRow, metricTable } from './metric-table.ts'

type OfType<T extends MetricRow['type']> = {
  [N in MetricName]: (typeof metricTable)[N]['type'] extends T ? N : never
}[MetricName]

/** Label values in the order of the table. */
type LabelValues = readonly string[]

/** The metrics of the table, in a registry of their own. */
export class MetricSet {
  readonly #registry = new Registry()
  readonly #metrics = new Map<MetricName, Counter | Gauge | Histogram>()
  readonly #collectors: (() => void | Promise<void>)[] = []

  constructor() {
    for (const [name, row] of Object.entries(metricTable) as [MetricName, MetricRow][]) {
      const options = { name, help: row.help, labelNames: row.labels, registers: [this.#registry] }
      const { buckets } = row
      if (row.type === 'counter') this.#metrics.set(name, new Counter(options))
      else if (row.type === 'gauge') this.#metrics.set(name, new Gauge(options))
      else this.#metrics.set(name, new Histogram({ ...options, ...(buckets && { buckets: [...buckets] }) }))
    }
  }

  get contentType(): string {
    return this.#registry.contentType
  }

  /** What counts one more of a counter with these labels; to be kept, as making it costs more than calling it. */
  counting(name: OfType<'counter'>, labels: LabelValues = []): () => void {
    const child = (this.#metrics.get(name) as Counter).labels(...labels)
    return () => child.inc()
  }

  /** What takes one observation of a histogram with these labels; to be kept likewise. */
  observing(name: OfType<'histogram'>, labels: LabelValues = []): (value: number) => void {
    const child = (this.#metrics.get(name) as Histogram).labels(...labels)
    return (value) => child.observe(value)
  }

  /** What a gauge, or a counter that is kept elsewhere, is at the time of a scrape. */
  onScrape(collect: () => void | Promise<void>): void {
    this.#collectors.push(collect)
  }

  set(name: OfType<'gauge'>, value: number, labels: LabelValues = []): void {
    ;(this.#metrics.get(name) as Gauge).labels(...labels).set(value)
  }

  /** The total of a counter that is kept elsewhere. */
  setTotal(name: OfType<'counter'>, value: number): void {
    const counter = this.#metrics.get(name) as Counter
    counter.reset()
    counter.inc(value)
  }

  /** The text of a scrape. */
  async text(): Promise<string> {
    for (const collect of this.#collectors) await collect()
    return this.#registry.metrics()
  }
}
