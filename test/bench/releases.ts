import { startConversation } from '../harness/conversation.ts'
import { startReleasing } from '../harness/releases.ts'
import { inTime } from './deadline.ts'
import { startPlatform } from './platform.ts'
import type { Bench } from './row.ts'

const full = { releases: 50 }
const brief: typeof full = { releases: 2 }
const drainSeconds = 2
/** Timers may fire slightly early. */
const toleranceMs = 10

/** Measures fifty releases of one app under constant load, with a WebSocket to each release that is used until it ends. */
export const benchReleases: Bench = async ({ signal, short }) => {
  const { releases } = short ? brief : full
  await using platform = await startPlatform({ FAIRLEAD_DRAIN_TIMEOUT: String(drainSeconds) }, signal)
  await using releasing = await inTime('first release', signal, startReleasing(platform))
  const { load, url } = releasing
  const startedAt = performance.now()
  const conversations: { release: number; end: Promise<number> }[] = []
  for (let made = 0; made < releases; made++) {
    signal.throwIfAborted()
    const conversation = await inTime('WebSocket', signal, startConversation(url))
    const end = conversation.goOn()
    // Awaited below; until then a rejection must not be unhandled.
    end.catch(() => undefined)
    conversations.push({ release: conversation.release, end })
    await inTime('next release', signal, releasing.release())
  }
  await releasing.settled()
  let early = 0
  for (const { release, end } of conversations) {
    // Requests that a release answered were sent before the switch, which starts its drain time.
    if (
      (await inTime('end of a WebSocket', signal, end)) - load.lastSentTo(release) <
      drainSeconds * 1000 - toleranceMs
    )
      early += 1
  }
  const report = await inTime('end of the load', signal, load.stop())
  const seconds = (performance.now() - startedAt) / 1000
  const seen = report.answers.size

  return {
    rows: [
      {
        name: 'releases: failed requests',
        measured: `${report.failed} of ${report.requests}`,
        aim: { text: '0', met: report.failed === 0 },
      },
      {
        name: 'releases: kept connections lost',
        measured: String(report.lostConnections),
        aim: { text: '0', met: report.lostConnections === 0 },
      },
      {
        name: 'releases: WebSockets ended early',
        measured: `${early} of ${releases}`,
        aim: { text: '0', met: early === 0 },
      },
      {
        name: 'releases: releases seen',
        measured: `${seen} of ${releases + 1}`,
        aim: { text: String(releases + 1), met: seen === releases + 1 },
      },
    ],
    notes: [
      `${releases} releases in ${seconds.toFixed(1)} s under ${Math.round(report.requests / seconds)} requests/s, ` +
        `${report.connections} connections, slowest answer ${Math.round(report.slowestMs)} ms (some take 50 ms by design).`,
      'An answer by a release that was not current at any time between request and answer counts as failed. A WebSocket ' +
        `is opened on each release and used until it ends: early is before the drain of ${drainSeconds} s.`,
      ...report.failures,
    ],
  }
}
