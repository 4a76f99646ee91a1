import { setTimeout as sleep } from 'node:timers/promises'
import { startLoad } from '../harness/load.ts'
import { instancesAt, replicatedApp } from '../harness/replicas.ts'
import { inTime } from './deadline.ts'
import { startPlatform } from './platform.ts'
import type { Bench } from './row.ts'

const full = { changes: 20 }
const brief: typeof full = { changes: 2 }
const most = 4
const pauseMs = 100

/** Changes the number of an app's instances twenty times between one and four under constant load. */
export const benchReplicas: Bench = async ({ signal, short }) => {
  const { changes } = short ? brief : full
  await using platform = await startPlatform({ FAIRLEAD_DRAIN_TIMEOUT: '5' }, signal)
  await using source = await replicatedApp()
  const { client, projectId: project_id } = platform
  const { url } = await platform.deploy({ name: 'replicas', git_url: source.url })
  const { apps } = await client.apps.list({ params: { project_id } })
  const params = { project_id, app_id: apps[0]?.id ?? '' }
  await using load = startLoad({ url, release: 1 })
  await load.answeredBy(1)
  let longest = 0
  for (let change = 0; change < changes; change += 1) {
    signal.throwIfAborted()
    const instances = change % 2 === 0 ? most : 1
    const begun = performance.now()
    await client.processes.update({ params, body: { processes: { web: { instances } } } })
    const changed = async () => {
      while ((await instancesAt(url)).size !== instances) await sleep(pauseMs, undefined, { signal })
    }
    await inTime(`answer by ${instances} instances`, signal, changed())
    longest = Math.max(longest, performance.now() - begun)
  }
  const report = await inTime('end of the load', signal, load.stop())
  return {
    rows: [
      {
        name: `replicas: failed requests in ${changes} changes (1 and ${most})`,
        measured: `${report.failed} of ${report.requests}`,
        aim: { text: '0', met: report.failed === 0 },
      },
      {
        name: 'replicas: kept connections lost',
        measured: String(report.lostConnections),
        aim: { text: '0', met: report.lostConnections === 0 },
      },
    ],
    notes: [`The longest change took ${(longest / 1000).toFixed(1)} s.`],
  }
}
