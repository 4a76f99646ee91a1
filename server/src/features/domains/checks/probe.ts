import { randomBytes } from 'node:crypto'
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { isIPv6 } from 'node:net'
import type { Database } from '../../../platform/database.ts'
import { request } from '../../../platform/http.ts'
import type { ProbeResult } from './facts.ts'
import type { Probe } from './gather.ts'

/** The path at which every edge of this server answers with the probe text, for every host. */
export const probePath = '/.well-known/fairlead/probe'

const timeoutMs = 5_000

type SettingsTables = {
  settings: { key: string; value: Buffer }
}

/** Returns the text that distinguishes this server from others. All servers with the same database share it. */
export async function agreeOnProbeText(database: Database): Promise<string> {
  const settings = database.withTables<SettingsTables>()
  const key = 'domain_probe'
  await settings
    .insertInto('settings')
    .values({ key, value: Buffer.from(randomBytes(20).toString('hex')) })
    .onConflict((conflict) => conflict.column('key').doNothing())
    .execute()
  const row = await settings.selectFrom('settings').select('value').where('key', '=', key).executeTakeFirstOrThrow()
  return row.value.toString()
}

/**
 * Returns a function that requests the text from an address, over plain HTTP like an authority (RFC 8555, section 8.3).
 *
 * @param given.ports the ports to try, in order, until something answers
 */
export function createProbe(given: { readonly text: () => Promise<string>; readonly ports: readonly number[] }): Probe {
  return async (host, address, signal) => {
    const text = await given.text()
    let result: ProbeResult = { outcome: 'unreachable', reason: 'failed' }
    for (const port of given.ports) {
      result = await ask({ host, address, port }, text, signal)
      if (result.outcome !== 'unreachable') return result
    }
    return result
  }
}

async function ask(
  { host, address, port }: { readonly host: string; readonly address: string; readonly port: number },
  text: string,
  signal: AbortSignal,
): Promise<ProbeResult> {
  const late = AbortSignal.timeout(timeoutMs)
  const limited = AbortSignal.any([signal, late])
  const { promise, resolve, reject } = Promise.withResolvers<ProbeResult>()
  const sent = request({
    ...{ host: address, family: isIPv6(address) ? 6 : 4, port, path: probePath, signal: limited },
    headers: { host, 'user-agent': 'Fairlead', accept: 'text/plain' },
    // Every request has a separate connection, so that one server's answer is not taken for another's.
    agent: false,
    maxHeaderSize: 16_384,
  })
  sent.once('error', reject)
  sent.once('response', (answer) => read(answer, text).then(resolve, reject))
  sent.end()
  try {
    return await promise
  } catch (error) {
    signal.throwIfAborted()
    if (late.aborted) return { outcome: 'unreachable', reason: 'timeout' }
    const isRefused = (error as NodeJS.ErrnoException).code === 'ECONNREFUSED'
    return { outcome: 'unreachable', reason: isRefused ? 'refused' : 'failed' }
  } finally {
    sent.destroy()
  }
}

/** Reads no more of a stranger's answer than the length of the text. */
async function read(answer: IncomingMessage, text: string): Promise<ProbeResult> {
  const { statusCode: status = 0, headers } = answer
  const isOther = { outcome: 'other', status, headers: textsOf(headers) } as const
  if (status !== 200) return isOther
  let body = ''
  for await (const chunk of answer.setEncoding('latin1')) {
    body += String(chunk)
    if (body.length > text.length + 2) return isOther
  }
  return body.trim() === text ? { outcome: 'reached' } : isOther
}

const textsOf = (headers: IncomingHttpHeaders): Record<string, string> =>
  Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)]])),
  )
