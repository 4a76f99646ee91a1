/*
 * The processes of this machine: their identity, which of them belong together, the ports that they listen on, and how to
 * end them. Everything is read from Linux's /proc (proc(5)); `inspectProcess` knows other systems too.
 */

export { type ChildProcess, childrenOf } from './processes/children.ts'
export { closeInheritedDescriptors, descriptorLimit, hardDescriptorLimit } from './processes/descriptors.ts'
export { openExit, type ProcessExit } from './processes/exit.ts'
export { inspectProcess, type ProcessInfo, pidIsTaken } from './processes/inspect.ts'
export { type KillTarget, killAll, killGroup, sendSignal } from './processes/kill.ts'
export {
  type MachineMemory,
  machineMemory,
  memoryOfProcesses,
  parseMachineMemory,
  parseProcessMemory,
} from './processes/memory.ts'
export { memoryFolders } from './processes/shared-memory.ts'
export { isBeyondQuota, isShortage, ShortageError, unlessShort } from './processes/shortage.ts'
export {
  type ListeningSocket,
  listeningPorts,
  listeningSockets,
  networkOf,
  socketsHeldBy,
} from './processes/sockets.ts'
export { startProcess } from './processes/spawn.ts'
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
  ticksSinceBoot,
  uidsOf,
  unsharedMemoryOf,
  userOf,
} from './processes/stat.ts'
export { hasEnded, traceOfThisProcess } from './processes/trace.ts'
export { unlinkedBytesOf } from './processes/unlinked-files.ts'
export {
  controlGroupsOf,
  familyOf,
  findProcesses,
  groupProcesses,
  type Marker,
  usersOfProcesses,
  variableOf,
  variablesOf,
} from './processes/walk.ts'
