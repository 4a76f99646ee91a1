import { randomBytes } from 'node:crypto'
import { rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { pino } from 'pino'
import { describe, expect, it } from 'vitest'
import { openDatabase } from '../../../server/src/platform/database.ts'
import { createSecretBox, openSecretBox } from '../../../server/src/platform/secrets.ts'
import { testDatabase } from '../../harness/database.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

describe('a sealed secret', () => {
  const box = createSecretBox(randomBytes(32))

  it('opens only with its key and its context', () => {
    const sealed = box.encrypt('päss', 'row 1')
    expect(box.decrypt(sealed, 'row 1')).toBe('päss')
    expect(() => box.decrypt(sealed, 'row 2')).toThrow()
    expect(() => createSecretBox(randomBytes(32)).decrypt(sealed, 'row 1')).toThrow()
    for (let at = 0; at < sealed.length; at++) {
      const changed = Buffer.from(sealed)
      changed[at] = (changed[at] ?? 0) ^ 1
      expect(() => box.decrypt(changed, 'row 1')).toThrow()
    }
  })

  it('has another ciphertext each time', () => {
    expect(box.encrypt('a', 'x').equals(box.encrypt('a', 'x'))).toBe(false)
  })
})

describe('the key', () => {
  it('is created at the first start, readable only for the server, and opens the secrets later', async () => {
    await using database = await testDatabase()
    await using directory = await temporaryDirectory()
    const handle = openDatabase({ connectionString: database.url, max: 2 }, pino({ level: 'silent' }))
    const file = join(directory.path, 'secret.key')
    const open = (given?: string) => openSecretBox({ database: handle.db, given, file })
    const sealed = (await open()).encrypt('a', 'x')
    expect((await stat(file)).mode & 0o777).toBe(0o600)
    expect((await open()).decrypt(sealed, 'x')).toBe('a')
    await expect(open(randomBytes(32).toString('base64'))).rejects.toThrow('FAIRLEAD_SECRET_KEY')
    await rm(file)
    await expect(open()).rejects.toThrow(file)
    await expect(stat(file)).rejects.toThrow('ENOENT')
    await handle.close()
  })
})
