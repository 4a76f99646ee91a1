import { hash, type Options, verify } from '@node-rs/argon2'
import pLimit from 'p-limit'
import { newToken } from './tokens.ts'

export interface Passwords {
  hash(password: string): Promise<string>
  /** Takes as long, and says no, when there is no hash to compare with. */
  verify(password: string, hash: string | undefined): Promise<boolean>
}

/** argon2id, which is the library's default, with OWASP's first choice of costs (Password Storage Cheat Sheet). */
const costs: Options = { memoryCost: 19_456, timeCost: 2, parallelism: 1 }

/** Each takes 19 MiB and one of the four threads that files and names are looked up on as well. */
const atOnce = 2

export function createPasswords(): Passwords {
  const places = pLimit(atOnce)
  const nobodys = places(() => hash(newToken(), costs))
  // Whoever verifies gets the rejection; nobody may wait for it before that.
  nobodys.catch(() => undefined)
  return {
    hash: (password) => places(() => hash(password, costs)),
    verify(password, given) {
      return places(async () => {
        const matches = await verify(given ?? (await nobodys), password)
        return matches && given !== undefined
      })
    },
  }
}
