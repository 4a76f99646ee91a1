import { getIDToken, getState, saveState, setSecret } from '@actions/core'
import {
  createKeyExchange,
  type ExchangeOptions,
  endKey,
  type KeyExchange,
  type ShortLivedKey,
} from '@fairlead/server/exchange'
import type { Environment } from '../event.ts'
import type { Access } from '../inputs/inputs.ts'
import { withCommands } from '../log.ts'
import { states } from '../states.ts'
import { KeyError } from './answers.ts'

/**
 * Exchanges GitHub's tokens for keys of the project. Each key is masked, and known to the post step before it is used. Its
 * method rejects with `KeyError`.
 */
export function createKeys(
  { apiUrl, projectId }: Access,
  env: Environment,
  requests: Pick<ExchangeOptions, 'fetch' | 'retries' | 'onRetry'>,
): KeyExchange {
  const exchange = createKeyExchange({
    address: apiUrl,
    projectId,
    requestToken: (audience) => getIDToken(audience),
    ...requests,
    onKey({ apiKey }) {
      saved.push(apiKey)
      withCommands(() => {
        setSecret(apiKey)
        saveState(states.keys, JSON.stringify(saved.slice(-mostAlive)))
      })
    },
  })
  return {
    key: (signal) =>
      exchange.key(signal).catch((cause: unknown) => {
        throw new KeyError(commandToTrust(projectId, env), { cause })
      }),
    end: exchange.end,
  }
}

/** Returns the command by which the project trusts runs like this one; empty if no rule may trust them. */
export function commandToTrust(projectId: string, env: Environment): string {
  const [name, id] = [env['GITHUB_REPOSITORY'] ?? 'OWNER/REPOSITORY', env['GITHUB_REPOSITORY_ID'] ?? 'ID']
  const [event, ref, site] = [env['GITHUB_EVENT_NAME'] ?? '', env['GITHUB_REF'] ?? '', env['GITHUB_SERVER_URL'] ?? '']
  if (event === 'pull_request_target') return ''
  const [, kind, short = ''] = /^refs\/(heads|tags)\/(.+)$/.exec(ref) ?? []
  const isEnterprise = /^https:/.test(site) && site !== 'https://github.com'
  return [
    `fairlead trust add ${projectId}`,
    ...(isEnterprise ? [`--issuer ${site}/_services/token`] : []),
    `--repository ${name} --repository-id ${id}`,
    ...(/^pull_request/.test(event) ? [`--event ${event}`] : []),
    ...(kind === undefined ? [] : [`--${kind === 'heads' ? 'branch' : 'tag'} ${quoted(short)}`]),
  ].join(' ')
}

/** A person copies the command into a shell, and a branch may have any name. */
const quoted = (text: string): string => (/^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`)

/** At half of a key's life the next key follows, so all but the last three keys have expired. */
const mostAlive = 3

/** The keys of this step and, in the post step, the main step's keys, oldest first. */
const saved: ShortLivedKey['apiKey'][] = JSON.parse(getState(states.keys) || '[]')

/** Ends all keys of this job. Returns the errors; a key that cannot be ended expires soon. */
export async function endKeys(apiUrl: string, send: typeof fetch): Promise<readonly unknown[]> {
  const results = await Promise.allSettled(
    saved.slice(-mostAlive - 1).map((apiKey) => endKey({ address: apiUrl, apiKey, fetch: send })),
  )
  return results.flatMap((result) => (result.status === 'rejected' ? [result.reason as unknown] : []))
}
