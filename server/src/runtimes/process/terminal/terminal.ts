import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, constants, existsSync, openSync } from 'node:fs'
import type { Readable, Writable } from 'node:stream'
import { programFile } from '../../../platform/machine/own-files.ts'
import { startProcess } from '../../../platform/processes.ts'
import { hasPseudoterminals } from './native.ts'

/** A terminal for one command. */
export interface Terminal {
  /** The descriptor that the command gets three times; only that command inherits it. */
  readonly device: number
  /** The other side. */
  readonly keyboard: Writable
  readonly screen: Readable
  resize(columns: number, rows: number): void
  /** Closes this process's descriptor of the device, once the command has it. */
  release(): void
  /** Hangs up: the command gets SIGHUP. */
  close(): void
}

/** How long the process of a terminal may take to open it: a busy machine starts programs slowly. */
const startMs = 30_000

/** util-linux's program, which makes its terminal that of a new session. */
const setsid = '/usr/bin/setsid'

/** The words by which a command takes its standard input for the terminal of its session. */
export const takingTerminal = (argv: readonly [string, ...string[]]): [string, ...string[]] => [
  setsid,
  '--ctty',
  '--wait',
  ...argv,
]

/** True where commands can have terminals. */
export const hasTerminals = (): boolean => process.platform === 'linux' && existsSync(setsid) && hasPseudoterminals()

/**
 * Opens a terminal in a process of its own, which ends with this one. A terminal that was opened here would be open in
 * every process that is started meanwhile, those of other apps among them.
 */
export async function openTerminal(size: { readonly columns: number; readonly rows: number }): Promise<Terminal> {
  const host = startProcess(process.execPath, [programFile('terminal'), String(size.columns), String(size.rows)], {
    env: {},
    stdio: ['pipe', 'pipe', 'ignore', 'ipc'],
  })
  try {
    const device = openDevice(await nameFrom(host))
    host.send({ opened: true })
    return terminalOf(host, device)
  } catch (error) {
    host.kill('SIGKILL')
    throw error
  }
}

/**
 * Returns the name of the device that the process of a terminal sends.
 *
 * @throws Error when it ends before that, or takes too long
 */
export async function nameFrom(host: ChildProcess, withinMs = startMs): Promise<string> {
  const over = new AbortController()
  const signal = AbortSignal.any([over.signal, AbortSignal.timeout(withinMs)])
  const ended = once(host, 'exit', { signal }).then(() => {
    throw new Error('the process of the terminal has ended')
  })
  try {
    const [name] = await Promise.race([once(host, 'message', { signal }), ended])
    return String(name)
  } catch (error) {
    throw signal.aborted ? new Error(`the process of the terminal has not started within ${withinMs / 1000} s`) : error
  } finally {
    over.abort()
  }
}

/** Opens the device without making it the terminal of the server's own session. */
function openDevice(name: string): number {
  if (!/^\/dev\/pts\/\d+$/.test(name)) throw new Error(`${name} is no terminal`)
  return openSync(name, constants.O_RDWR | constants.O_NOCTTY)
}

function terminalOf(host: ChildProcess, device: number): Terminal {
  const { stdin: keyboard, stdout: screen } = host
  if (keyboard === null || screen === null) throw new Error('the process of the terminal has no streams')
  // It may end before it has read everything.
  keyboard.on('error', () => undefined)
  let isOpen = true
  return {
    device,
    keyboard,
    screen,
    resize: sizesTo(host),
    release() {
      if (isOpen) closeSync(device)
      isOpen = false
    },
    close: () => void host.kill('SIGKILL'),
  }
}

/** Sends sizes one after the other; of those that come meanwhile, the last: a client may send any number. */
function sizesTo(host: ChildProcess): Terminal['resize'] {
  let next: { readonly columns: number; readonly rows: number } | undefined
  let isSending = false
  const sendNext = () => {
    if (isSending || next === undefined || !host.connected) return
    const size = next
    next = undefined
    isSending = true
    // An error means that it has ended.
    host.send(size, () => {
      isSending = false
      sendNext()
    })
  }
  return (columns, rows) => {
    next = { columns, rows }
    sendNext()
  }
}
