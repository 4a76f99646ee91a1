import type { Bench } from './row.ts'
import { measureReceiver } from './webhook-receiver.ts'
import { measureSender } from './webhook-sender.ts'

/** Measures the cost of receiving a webhook, and the latency and throughput of sending them. */
export const benchWebhooks: Bench = async (run) => {
  const receiver = await measureReceiver(run)
  const sender = await measureSender(run)
  return { rows: [...receiver.rows, ...sender.rows], notes: [...(receiver.notes ?? []), ...(sender.notes ?? [])] }
}
