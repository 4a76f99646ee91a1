/* Everything is read from Linux's /proc (proc(5)); `inspectProcess` knows other systems, too. */

export { type KillTarget, killAll, killGroup, openExit, type ProcessExit, sendSignal } from './processes/end.ts'
export {
  type ChildProcess,
  childrenOf,
  controlGroupsOf,
  familyOf,
  findProcesses,
  groupProcesses,
  hasEnded,
  inspectProcess,
  type Marker,
  type ProcessInfo,
  pidIsTaken,
  traceOfThisProcess,
  usersOfProcesses,
  variableOf,
  variablesOf,
} from './processes/find.ts'
export {
  type MachineMemory,
  machineMemory,
  memoryFolders,
  memoryOfProcesses,
  parseMachineMemory,
  parseProcessMemory,
  unlinkedBytesOf,
} from './processes/memory.ts'
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
  closeInheritedDescriptors,
  dateOf,
  descriptorLimit,
  hardDescriptorLimit,
  isBeyondQuota,
  isRunning,
  isShortage,
  type ProcessIdentity,
  type ProcessStat,
  parseStat,
  readStat,
  ShortageError,
  startTimeOf,
  ticksPerSecond,
  uidsOf,
  unlessShort,
  unsharedMemoryOf,
  userOf,
} from './processes/stat.ts'
