import { setTimeout as sleep } from 'node:timers/promises'
import { deploymentHeader, type PublicAddress } from '../../gateway/client.ts'
import { DeploymentError } from '../failure.ts'
import { isHealthy, probe } from './probe.ts'

const attempts = 5

/**
 * Asks the gateway for the app as a visitor would, and resolves when the new release answers. Rejects with a
 * `DeploymentError` of the stage `switch` otherwise.
 */
export async function confirmRoute(
  listener: { readonly host: string; readonly port: number },
  address: PublicAddress,
  deploymentId: string,
  healthPath: string | undefined,
  signal: AbortSignal,
): Promise<void> {
  let seen = 'no answer'
  for (let attempt = 1; attempt <= attempts; attempt++) {
    try {
      const target = { ...listener, path: healthPath ?? '/', headers: hostHeader(address) }
      const { status, headers } = await probe(target, signal)
      const from = headers[deploymentHeader]
      if (from === deploymentId && isHealthy(status, healthPath)) return
      seen = `status ${status} from ${from ?? 'the gateway itself'}`
    } catch (error) {
      signal.throwIfAborted()
      seen = error instanceof Error ? error.message : String(error)
    }
    await sleep(100, undefined, { signal })
  }
  throw new DeploymentError(
    'switch',
    'address_not_answering',
    `The app is healthy, but its public address did not lead to it (${seen}). See that no other program holds the address.`,
  )
}

function hostHeader(address: PublicAddress): Record<string, string> {
  return 'hostname' in address ? { host: address.hostname } : {}
}
