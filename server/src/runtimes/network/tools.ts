import { randomUUID } from 'node:crypto'
import { type FileHandle, open, unlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startProcess } from '../../platform/processes.ts'

/** `ip` (iproute2), `nft` (nftables), `nsenter` (util-linux) and `cp` (coreutils), as absolute paths. */
export interface Tools {
  readonly ip: string
  readonly nft: string
  readonly nsenter: string
  readonly cp: string
}

/** A system program ended with an error; `message` contains its error output. */
export class ToolError extends Error {
  override readonly name = 'ToolError'
}

/** Ignores the error when another program has already removed the object. */
export function ignoreMissing(error: unknown): void {
  if (!(error instanceof ToolError && error.message.includes('No such file'))) throw error
}

const timeoutMs = 60_000

/**
 * Runs a system program with this input and resolves with its output. Rejects with a `ToolError` unless the exit code
 * is 0.
 *
 * @param files texts that the program and its children read at `inputPath`
 */
export async function runTool(
  file: string,
  args: readonly string[],
  input = '',
  files: readonly string[] = [],
): Promise<string> {
  const opened = await Promise.all(files.map(namelessFile))
  try {
    return await runWith(
      file,
      args,
      input,
      opened.map(({ fd }) => fd),
    )
  } finally {
    await Promise.all(opened.map((each) => each.close()))
  }
}

export const inputPath = (index: number): string => `/proc/self/fd/${index + 3}`

async function namelessFile(text: string): Promise<FileHandle> {
  const path = join(tmpdir(), `fairlead-${randomUUID()}`)
  const file = await open(path, 'wx+', 0o600)
  await unlink(path)
  await file.writeFile(text)
  return file
}

function runWith(
  file: string,
  args: readonly string[],
  input: string,
  descriptors: readonly number[],
): Promise<string> {
  return new Promise((resolve, reject) => {
    const stdio = ['pipe', 'pipe', 'pipe', ...descriptors] as const
    const child = startProcess(file, args, { env: {}, stdio: [...stdio], timeout: timeoutMs })
    child.on('error', (error) => reject(new ToolError(error.message, { cause: error })))
    let printed = ''
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      printed += text
    })
    let said = ''
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      said = (said + text).slice(0, 2_000)
    })
    child.stdin?.on('error', () => undefined).end(input)
    child.on('close', (code) =>
      code === 0 ? resolve(printed) : reject(new ToolError(`${file} ended with ${code ?? 'a signal'}: ${said.trim()}`)),
    )
  })
}
