import type { DataDirectory } from '../platform/data-directory.ts'
import { killAll } from '../platform/processes.ts'
import { findRunningDaemons, type RunningDaemon } from '../runtimes/docker/dockerfiles/daemon-record.ts'

/** Finds the engines that build Dockerfiles. They normally end with their server. */
export const findBuilds = ({ imageBuilds }: Pick<DataDirectory, 'imageBuilds'>): Promise<readonly RunningDaemon[]> =>
  findRunningDaemons(imageBuilds)

/** Ends the engines that build Dockerfiles, with all their processes. Returns the engines that ran. */
export async function endBuilds(directory: Pick<DataDirectory, 'imageBuilds'>): Promise<readonly RunningDaemon[]> {
  const running = await findBuilds(directory)
  if (running.length > 0) await killAll({ leaders: running }, { graceMs: 0 })
  return running
}
