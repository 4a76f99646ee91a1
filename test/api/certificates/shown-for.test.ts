import { expect, it } from 'vitest'
import { insertUpload } from '../../../server/src/features/certificates/certificates.ts'
import { checkUpload } from '../../../server/src/features/certificates/check-upload.ts'
import { isProblem } from '../../../server/src/features/certificates/pem.ts'
import { certificatesOfDomains } from '../../../server/src/features/certificates/status.ts'
import { createWorld } from '../../harness/certificates/world.ts'
import { uploadOf } from '../../harness/certificates.ts'

it('the API names the certificate that visitors get: the latest of several uploads', async () => {
  const acme = { email: 'operator@example.test', url: 'https://127.0.0.1:1/directory', ca: null }
  await using given = await createWorld({ acme })
  const tenant = await given.tenant()
  const app = await given.app(tenant)
  const name = 'www.shop.test'
  const id = await given.domain(app.id, name)
  const upload = async (names: readonly string[], from: number) => {
    const body = await uploadOf({ names, from, to: 60 })
    const checked = checkUpload({ certificate: body.certificate, privateKey: body.private_key }, new Date())
    if (isProblem(checked)) throw new Error(checked.message)
    const owner = { accountId: tenant.accountId, projectId: null }
    return given.transaction((on) => insertUpload(on, given.secrets, owner, checked))
  }
  const shown = () =>
    given.transaction(async (on) => {
      const asking = { id, name, account_id: tenant.accountId, project_id: tenant.projectId }
      return (await certificatesOfDomains(on, [asking])).get(id)
    })
  expect(await shown()).toBeUndefined()
  const newer = await upload([name], -1)
  await upload(['*.shop.test'], -30)
  expect(await shown()).toMatchObject({ id: newer, status: 'valid' })
})
