import { createHash, createPrivateKey, generateKeyPairSync, sign } from 'node:crypto'
import { once } from 'node:events'
import { chown, constants, mkdtemp, open, rm, writeFile } from 'node:fs/promises'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { OsUser } from '../platform/users.ts'

/** The keys of ssh hosts that an app has met. A host is named with its port, such as `example.com:22`. */
export interface HostKeys {
  /** Resolves to the type and the key in base64; null for a host that was not met. */
  keyOf(host: string): Promise<string | null>
  /**
   * Keeps the key of a host that was met for the first time. Resolves to false when another key was kept meanwhile, and rejects
   * with a `SourceError` when the app knows too many.
   */
  keep(host: string, key: string): Promise<boolean>
}

/** The agent and the known host of ssh for one run of git. */
export interface SshAccess {
  /** Holds the socket and the known key of the host, and nothing else. */
  readonly folder: string
  /** The path of the socket of an agent; null without one. */
  readonly agent: string | null
  /** The path of the file with the key of the host. */
  readonly knownHosts: string
  /** Returns the key that ssh has met; null when it has met none. */
  metKey(): Promise<string | null>
  close(): Promise<void>
}

/** The name of the host in `knownHosts`: each file has one alone. */
export const hostAlias = 'repository'

/**
 * Makes a folder for one run of git. It has a socket of its own in front of an agent: that of the operator, which answers its
 * own user alone, while git may be another, or one in this process, which has a deploy key. When git has ended, nothing leads
 * to the agent any more.
 *
 * @param given.agent the path of the operator's agent (`SSH_AUTH_SOCK`), a deploy key, or null for none
 * @param given.hostKey the known key of the host; null for one that was not met
 */
export async function openSshAccess(
  given: { readonly agent: string | DeployKey | null; readonly hostKey: string | null },
  { user }: { readonly user: OsUser | null },
): Promise<SshAccess> {
  // A path of a socket may have 107 bytes alone, which a data directory can exceed.
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

/** More than a host's key takes. */
const mostKeyBytes = 8 * 1024
const keyLine = new RegExp(`^${hostAlias} ((?:ssh|ecdsa)-[a-z0-9-]{1,40} [A-Za-z0-9+/]{1,4000}={0,2})$`, 'm')

/** Reads the key in the file. Git's own user could have put anything there: a link is not followed, nor a pipe waited for. */
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
 * The protocol between ssh and its agent (draft-ietf-sshm-ssh-agent): each message has its length in four bytes, its type in
 * one, and its content.
 */
const types = { failure: 5, listKeys: 11, keys: 12, sign: 13, signature: 14 } as const
/** More than any request of ssh has. */
const mostMessageBytes = 64 * 1024

/** Answers ssh as an agent that has one key: it shows the public part, and signs. The private part never leaves this process. */
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

/** Reads a string of the ssh protocol; undefined when the message ends before it does. */
function stringAt(message: Buffer, at: number): { readonly bytes: Buffer; readonly end: number } | undefined {
  if (message.length < at + 4) return undefined
  const end = at + 4 + message.readUInt32BE(at)
  return end > message.length ? undefined : { bytes: message.subarray(at + 4, end), end }
}

/** A key that an app has for its repository alone. */
export interface DeployKey {
  /** The private part, as PKCS#8 in PEM. */
  readonly privateKey: string
  /** The public part in the form of `authorized_keys`, without a comment. */
  readonly publicKey: string
}

const keyType = 'ssh-ed25519'

/** Makes a key of Ed25519 (RFC 8032). */
export function makeDeployKey(): DeployKey {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519')
  const { x = '' } = publicKey.export({ format: 'jwk' })
  const blob = Buffer.concat([sshString(keyType), sshString(Buffer.from(x, 'base64url'))])
  return {
    privateKey: privateKey.export({ format: 'pem', type: 'pkcs8' }).toString(),
    publicKey: `${keyType} ${blob.toString('base64')}`,
  }
}

/** Returns the bytes of a public key as ssh passes them on (RFC 8709). */
const blobOf = (publicKey: string): Buffer => Buffer.from(publicKey.split(' ')[1] ?? '', 'base64')

/** Returns the signature of `data` as ssh passes it on (RFC 8709). */
function signatureOf({ privateKey }: Pick<DeployKey, 'privateKey'>, data: Buffer): Buffer {
  return Buffer.concat([sshString(keyType), sshString(sign(null, data, createPrivateKey(privateKey)))])
}

/** Returns the fingerprint of a public key, as ssh shows it. */
export const fingerprintOf = (publicKey: string): string =>
  `SHA256:${createHash('sha256').update(blobOf(publicKey)).digest('base64').replace(/=+$/, '')}`

/** Returns a string of the ssh protocol (RFC 4251): its length in four bytes, and its bytes. */
function sshString(content: string | Buffer): Buffer {
  const bytes = Buffer.from(content as string)
  const length = Buffer.alloc(4)
  length.writeUInt32BE(bytes.length)
  return Buffer.concat([length, bytes])
}
