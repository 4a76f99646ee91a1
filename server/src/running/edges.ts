import { type EdgeProcess, edgeProcesses } from '../edge/edge.ts'
import type { DataDirectory } from '../platform/data-directory.ts'
import { killAll } from '../platform/processes.ts'

/** Finds the Caddy processes of a data directory, including a recorded process that no longer runs. */
export const findEdges = ({ root }: Pick<DataDirectory, 'root'>): Promise<readonly EdgeProcess[]> => edgeProcesses(root)

/** Ends the Caddy processes, which finish their requests within `graceMs`. Returns the processes that ran. */
export async function endEdges(
  directory: Pick<DataDirectory, 'root'>,
  { graceMs }: { readonly graceMs: number },
): Promise<readonly EdgeProcess[]> {
  const running = (await findEdges(directory)).filter((edge) => edge.isRunning)
  if (running.length > 0) await killAll({ leaders: running }, { graceMs })
  return running
}
