import { hash, type Options, verify } from '@node-rs/argon2'
import { createSlots } from '../../platform/slots.ts'
import { newToken } from './tokens.ts'

export interface Passwords {
  hash(password: string): Promise<string>
  /** Resolves to false without a hash, but takes the same time, so that timing does not reveal which users exist. */
  verify(password: string, hash: string | undefined): Promise<boolean>
}

/** For argon2id, the library's default: OWASP's first choice of costs (Password Storage Cheat Sheet). */
const costs: Options = { memoryCost: 19_456, timeCost: 2, parallelism: 1 }

/**
 * The most concurrent hashes. Each takes 19 MiB and one of the four threads that also serve file and DNS operations.
 */
const maxConcurrent = 2

export function createPasswords(): Passwords {
  const slots = createSlots(maxConcurrent)
  const inSlot = <T>(work: () => Promise<T>): Promise<T> => slots.use('passwords', undefined, work)
  const dummyHash = inSlot(() => hash(newToken(), costs))
  // `verify` reports a rejection later; without this handler the rejection would end the process first.
  dummyHash.catch(() => undefined)
  return {
    hash: (password) => inSlot(() => hash(password, costs)),
    verify(password, given) {
      return inSlot(async () => {
        const matches = await verify(given ?? (await dummyHash), password)
        return matches && given !== undefined
      })
    },
  }
}
