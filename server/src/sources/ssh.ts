import { createHash, createPrivateKey, generateKeyPairSync, sign } from 'node:crypto'
import { once } from 'node:events'
import { chown, constants, mkdtemp, open, rm, writeFile } from 'node:fs/promises'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { OsUser } from '../platform/users.ts'

/** The known keys of ssh hosts for one app. A host has its port: `example.com:22`. */
export interface HostKeys {
  /** Resolves to the key's type and its base64 text; null for an unknown host. */
  keyOf(host: string): Promise<string | null>
  /**
   * Stores the key of a new host. Resolves to false when another key was stored in between. Rejects with a
   * `SourceError` when the app knows too many hosts.
   */
  keep(host: string, key: string): Promise<boolean>
}

export interface SshAccess {
  readonly folder: string
  readonly agent: string | null
  readonly knownHosts: string
  /** Returns the host's key in `knownHosts`, where ssh stores a new one; null without a key. */
  metKey(): Promise<string | null>
  close(): Promise<void>
}

/** The host's name in `knownHosts`; each file has one host. */
export const hostAlias = 'repository'

/**
 * Creates a folder for one run of git, with a new socket in front of an agent: the operator's agent, which serves only
 * its own user while git may run as another, or an agent in this process with a deploy key. After git has ended, the
 * socket is gone.
 *
 * @param given.agent the path of the operator's agent (`SSH_AUTH_SOCK`), a deploy key, or null
 * @param given.hostKey null for an unknown host
 */
export async function openSshAccess(
  given: { readonly agent: string | DeployKey | null; readonly hostKey: string | null },
  { user }: { readonly user: OsUser | null },
): Promise<SshAccess> {
  // A socket's path is limited to 107 bytes, which a data directory can exceed.
  const folder = await mkdtemp(join(tmpdir(), 'fairlead-ssh-'))
  const { agent, hostKey } = given
  const path = join(folder, 'agent')
  const knownHosts = join(folder, 'known_hosts')
  const server = agent === null ? null : createServer((client) => serve(client, agent))
  const close = async () => {
    server?.close()
    await rm(folder, { recursive: true, force: true })
  }
  try {
    await writeFile(knownHosts, hostKey === null ? '' : `${hostAlias} ${hostKey}\n`, { mode: 0o600 })
    if (server !== null) await listen(server, path)
    const made = [knownHosts, ...(server === null ? [] : [path]), folder]
    if (user !== null) for (const each of made) await chown(each, user.uid, user.gid)
  } catch (error) {
    await close()
    throw error
  }
  return { folder, agent: server && path, knownHosts, metKey: () => keyIn(knownHosts), close }
}

async function listen(server: Server, path: string): Promise<void> {
  server.listen(path)
  await once(server, 'listening')
}

function serve(client: Socket, agent: string | DeployKey): void {
  if (typeof agent !== 'string') {
    serveKey(client, agent)
    return
  }
  const upstream = connect(agent)
  for (const [one, other] of [
    [client, upstream],
    [upstream, client],
  ] as const) {
    one.on('error', () => other.destroy())
    one.once('close', () => other.destroy())
    one.pipe(other)
  }
}

const mostKeyBytes = 8 * 1024
const keyLine = new RegExp(`^${hostAlias} ((?:ssh|ecdsa)-[a-z0-9-]{1,40} [A-Za-z0-9+/]{1,4000}={0,2})$`, 'm')

/**
 * Reads the key in the file. Git's user could have put anything there, so this follows no link and waits for no pipe.
 */
async function keyIn(path: string): Promise<string | null> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK).catch(() => null)
  if (file === null) return null
  try {
    const { bytesRead, buffer } = await file.read(Buffer.alloc(mostKeyBytes))
    return keyLine.exec(buffer.toString('latin1', 0, bytesRead))?.[1] ?? null
  } catch {
    return null
  } finally {
    await file.close()
  }
}

/*
 * The protocol between ssh and its agent (draft-ietf-sshm-ssh-agent). A message has its length in four bytes, its type
 * in one byte, and its content. A string (RFC 4251) has its length in four bytes.
 */
const types = { failure: 5, listKeys: 11, keys: 12, sign: 13, signature: 14 } as const
const mostMessageBytes = 64 * 1024

/** Serves ssh as an agent with one key. The private part never leaves this process. */
function serveKey(client: Socket, key: DeployKey): void {
  let received = Buffer.alloc(0)
  client.on('error', () => client.destroy())
  client.on('data', (chunk: Buffer) => {
    received = Buffer.concat([received, chunk])
    while (received.length >= 4) {
      const length = received.readUInt32BE(0)
      if (length === 0 || length > mostMessageBytes) return void client.destroy()
      if (received.length < 4 + length) return
      client.write(sshString(answerTo(received.subarray(4, 4 + length), key)))
      received = received.subarray(4 + length)
    }
  })
}

function answerTo(message: Buffer, key: DeployKey): Buffer {
  const blob = blobOf(key.publicKey)
  if (message[0] === types.listKeys) {
    return Buffer.concat([Buffer.of(types.keys, 0, 0, 0, 1), sshString(blob), sshString('')])
  }
  if (message[0] === types.sign) {
    const wanted = stringAt(message, 1)
    const data = wanted && stringAt(message, wanted.end)
    if (data !== undefined && wanted?.bytes.equals(blob)) {
      return Buffer.concat([Buffer.of(types.signature), sshString(signatureOf(key, data.bytes))])
    }
  }
  return Buffer.of(types.failure)
}

/** Reads a string of the ssh protocol; undefined when the message ends too early. */
function stringAt(message: Buffer, at: number): { readonly bytes: Buffer; readonly end: number } | undefined {
  if (message.length < at + 4) return undefined
  const end = at + 4 + message.readUInt32BE(at)
  return end > message.length ? undefined : { bytes: message.subarray(at + 4, end), end }
}

export interface DeployKey {
  /** The private part, as PKCS#8 in PEM. */
  readonly privateKey: string
  /** The public part in the form of `authorized_keys`, without a comment. */
  readonly publicKey: string
}

const keyType = 'ssh-ed25519'

/** Generates an Ed25519 key (RFC 8032). */
export function makeDeployKey(): DeployKey {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519')
  const { x = '' } = publicKey.export({ format: 'jwk' })
  const blob = Buffer.concat([sshString(keyType), sshString(Buffer.from(x, 'base64url'))])
  return {
    privateKey: privateKey.export({ format: 'pem', type: 'pkcs8' }).toString(),
    publicKey: `${keyType} ${blob.toString('base64')}`,
  }
}

const blobOf = (publicKey: string): Buffer => Buffer.from(publicKey.split(' ')[1] ?? '', 'base64')

function signatureOf({ privateKey }: Pick<DeployKey, 'privateKey'>, data: Buffer): Buffer {
  return Buffer.concat([sshString(keyType), sshString(sign(null, data, createPrivateKey(privateKey)))])
}

export const fingerprintOf = (publicKey: string): string =>
  `SHA256:${createHash('sha256').update(blobOf(publicKey)).digest('base64').replace(/=+$/, '')}`

function sshString(content: string | Buffer): Buffer {
  const bytes = Buffer.from(content as string)
  const length = Buffer.alloc(4)
  length.writeUInt32BE(bytes.length)
  return Buffer.concat([length, bytes])
}
