import type { Bench } from './row.ts'
import { measureReceiver } from './webhook-receiver.ts'

/** What receiving a webhook costs. */
export const benchWebhooks: Bench = async (signal) => measureReceiver(signal)
