import type { Bench } from './row.ts'
import { measureReceiver } from './webhook-receiver.ts'
import { measureSender } from './webhook-sender.ts'

/** What receiving a webhook costs, and how soon and how many are sent. */
export const benchWebhooks: Bench = async (signal) => {
  const receiver = await measureReceiver(signal)
  const sender = await measureSender(signal)
  return { rows: [...receiver.rows, ...sender.rows], notes: [...(receiver.notes ?? []), ...(sender.notes ?? [])] }
}
