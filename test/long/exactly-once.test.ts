import { it } from 'vitest'
import { handlesOnce } from '../harness/exactly-once.ts'

it('every one of 2,000 events is handled exactly once, although the endpoint and the server fail and restart', async () => {
  await handlesOnce({ events: 2_000, kills: 5, restarts: 10 })
}, 600_000)
