import { startReleasing } from '../harness/releases.ts'
import { startPlatform } from './platform.ts'
import type { Bench } from './row.ts'

const releases = 20

/** Twenty releases of one app while clients ask for it without a pause. */
export const benchReleases: Bench = async (signal) => {
  await using platform = await startPlatform({})
  signal.throwIfAborted()
  await using releasing = await startReleasing(platform)
  const startedAt = performance.now()
  for (let made = 0; made < releases; made++) {
    signal.throwIfAborted()
    await releasing.release()
  }
  await releasing.settled()
  const report = await releasing.load.stop()
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
        name: 'releases: releases seen',
        measured: `${seen} of ${releases + 1}`,
        aim: { text: String(releases + 1), met: seen === releases + 1 },
      },
    ],
    notes: [
      `${releases} releases in ${seconds.toFixed(1)} s under ${Math.round(report.requests / seconds)} requests/s, ` +
        `${report.connections} connections, slowest answer ${Math.round(report.slowestMs)} ms (some take 50 ms by design).`,
      'An answer by a release that was not current at any time between request and answer counts as failed.',
      ...report.failures,
    ],
  }
}
