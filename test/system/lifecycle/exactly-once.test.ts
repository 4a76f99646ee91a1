import { it } from 'vitest'
import { handlesOnce } from '../../harness/exactly-once.ts'

/* test/long/exactly-once.test.ts sends more. */

it('every event is handled exactly once, although the endpoint and the server fail and restart', async () => {
  await handlesOnce({ events: 300, kills: 2, restarts: 3 })
}, 600_000)
