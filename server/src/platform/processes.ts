/*
 * The processes of this machine: their identity, which of them belong together, the ports that they listen on, and how to
 * end them. Everything is read from Linux's /proc (proc(5)); `inspectProcess` knows other systems too.
 */

export { closeInheritedDescriptors, descriptorLimit } from './processes/descriptors.ts'
export { inspectProcess, type ProcessInfo, pidIsTaken } from './processes/inspect.ts'
export { type KillTarget, killAll } from './processes/kill.ts'
export { type ListeningSocket, listeningPorts, listeningSockets, socketsHeldBy } from './processes/sockets.ts'
export {
  bootId,
  dateOf,
  isRunning,
  type ProcessIdentity,
  type ProcessStat,
  parseStat,
  readStat,
  startTimeOf,
  ticksPerSecond,
  uidsOf,
  unsharedMemoryOf,
  userOf,
} from './processes/stat.ts'
export { hasEnded, traceOfThisProcess } from './processes/trace.ts'
export {
  controlGroupsOf,
  familyOf,
  findProcesses,
  groupProcesses,
  type Marker,
  markedValues,
  variableOf,
} from './processes/walk.ts'
