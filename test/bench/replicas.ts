import { setTimeout as sleep } from 'node:timers/promises'
import { deployAndSettle } from '../harness/deployments.ts'
import { startLoad } from '../harness/load.ts'
import { instancesAt, replicatedApp } from '../harness/replicas.ts'
import { startPlatform } from './platform.ts'
import type { Bench } from './row.ts'

const changes = 20
const most = 4
const pauseMs = 100
const longestMs = 120_000

/** Changes the number of an app's instances twenty times between one and four under constant load. */
export const benchReplicas: Bench = async (signal) => {
  await using platform = await startPlatform({ FAIRLEAD_DRAIN_TIMEOUT: '5' })
  await using source = await replicatedApp()
  const { client, projectId: project_id } = platform
  const { url } = await deployAndSettle(client, project_id, { name: 'replicas', git_url: source.url })
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
    while ((await instancesAt(url)).size !== instances) {
      if (performance.now() - begun > longestMs) throw new Error(`there are not ${instances} instances`)
      await sleep(pauseMs)
    }
    longest = Math.max(longest, performance.now() - begun)
  }
  const report = await load.stop()
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
