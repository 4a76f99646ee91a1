import { describe, expect, it } from 'vitest'
import { type Candidate, type ServedName, select } from '../../../server/src/features/certificates/selection.ts'

const now = new Date('2026-06-01')
const day = (offset: number) => new Date(now.getTime() + offset * 86_400_000)

const operator = 'operator'
const dashboard: ServedName = {
  ...{ name: 'fairlead.example.com', accountId: operator },
  ...{ projectId: null, appId: null, domainId: null },
}
const allApps: ServedName = { ...dashboard, name: '*.example.com' }
const app = (id: string, accountId = operator): ServedName => ({
  ...{ name: `${id}.example.com`, accountId, projectId: `project of ${id}`, appId: id, domainId: null },
})
const domainOf = (name: string, of: ServedName): ServedName => ({ ...of, name, domainId: `domain ${name}` })

/** The certificate of the authority for a served name. */
const obtained = (of: ServedName, more: Partial<Candidate> = {}): Candidate => ({
  id: `obtained ${of.name}`,
  names: [of.name],
  source: 'automatic',
  ...{ accountId: of.accountId, projectId: of.projectId, appId: of.appId, domainId: of.domainId },
  ...{ notBefore: day(-30), expiresAt: day(60), isBeingRevoked: false },
  ...more,
})
const uploaded = (names: readonly string[], accountId: string, more: Partial<Candidate> = {}): Candidate => ({
  ...obtained({ name: '', accountId, projectId: null, appId: null, domainId: null }),
  ...{ id: `uploaded ${names.join(' ')}`, names, source: 'uploaded' },
  ...more,
})
const chosen = (candidates: readonly Candidate[], served: readonly ServedName[]) =>
  Object.fromEntries(select(candidates, served, operator, now))

describe('the certificate of a name', () => {
  it('is the certificate that was obtained for its owner', () => {
    const [one, other] = [app('one'), app('other', 'tenant')]
    const www = domainOf('www.shop.com', other)
    expect(
      chosen(
        [dashboard, one, www].map((each) => obtained(each)),
        [dashboard, one, other, www],
      ),
    ).toEqual({
      'fairlead.example.com': 'obtained fairlead.example.com',
      'one.example.com': 'obtained one.example.com',
      'www.shop.com': 'obtained www.shop.com',
    })
  })

  it('is never another owner’s, even for the same name', () => {
    const [before, after] = [domainOf('www.shop.com', app('a', 'one')), domainOf('www.shop.com', app('b', 'other'))]
    const old = obtained({ ...before, domainId: 'the domain that was removed' })
    expect(chosen([old], [after])).toEqual({})
    expect(chosen([uploaded(['www.shop.com'], 'one')], [after])).toEqual({})
    expect(chosen([uploaded(['*.shop.com'], operator)], [after])).toEqual({})
  })

  it('is the uploaded certificate while it is valid', () => {
    const www = domainOf('www.shop.com', app('a', 'one'))
    const own = uploaded(['*.shop.com'], 'one')
    expect(chosen([obtained(www), own], [www])).toEqual({ 'www.shop.com': own.id })
    expect(chosen([obtained(www), { ...own, expiresAt: day(-1) }], [www])).toEqual({ 'www.shop.com': obtained(www).id })
    expect(chosen([obtained(www), { ...own, notBefore: day(1) }], [www])).toEqual({ 'www.shop.com': obtained(www).id })
  })

  it('is a certificate uploaded for its project, where the upload is limited to one project', () => {
    const www = domainOf('www.shop.com', app('a', 'one'))
    const limited = uploaded(['www.shop.com'], 'one', { projectId: 'another project' })
    expect(chosen([limited], [www])).toEqual({})
    expect(chosen([{ ...limited, projectId: www.projectId }], [www])).toEqual({ 'www.shop.com': limited.id })
  })

  it('is the latest certificate', () => {
    const www = domainOf('www.shop.com', app('a', 'one'))
    const [old, young] = [
      uploaded(['www.shop.com'], 'one', { id: 'old' }),
      uploaded(['*.shop.com'], 'one', { id: 'young' }),
    ]
    const later = { ...young, notBefore: day(-1) }
    expect(chosen([old, later], [www])).toEqual({ 'www.shop.com': 'young' })
    expect(chosen([later, old], [www])).toEqual({ 'www.shop.com': 'young' })
  })

  it('is not a certificate that is to be revoked, as soon as there is another', () => {
    const revoked = obtained(dashboard, { id: 'revoked', isBeingRevoked: true, notBefore: day(-1) })
    expect(chosen([revoked], [dashboard])).toEqual({ 'fairlead.example.com': 'revoked' })
    expect(chosen([revoked, obtained(dashboard)], [dashboard])).toEqual({
      'fairlead.example.com': 'obtained fairlead.example.com',
    })
  })

  it('of an app below the domain of the server is never a tenant’s upload', () => {
    const its = app('shop', 'tenant')
    expect(chosen([uploaded(['*.example.com', 'shop.example.com'], 'tenant')], [its, allApps])).toEqual({})
    const own = uploaded(['*.example.com'], operator)
    expect(chosen([own], [its, allApps])).toEqual({ 'shop.example.com': own.id, '*.example.com': own.id })
  })

  it('of an app is the uploaded wildcard, even when the app has an obtained certificate', () => {
    const its = app('shop')
    const own = uploaded(['*.example.com'], operator)
    expect(chosen([obtained(its), own], [its, allApps])).toEqual({
      'shop.example.com': own.id,
      '*.example.com': own.id,
    })
    expect(chosen([obtained(its), obtained(allApps)], [its, allApps])).toEqual({
      'shop.example.com': 'obtained shop.example.com',
      '*.example.com': 'obtained *.example.com',
    })
  })

  it('stays the obtained certificate, when another account has an uploaded wildcard above it', () => {
    const [all, www] = [domainOf('*.shop.com', app('a', 'one')), domainOf('www.shop.com', app('b', 'other'))]
    const wildcard = uploaded(['*.shop.com'], 'one')
    const each = { '*.shop.com': wildcard.id, 'www.shop.com': obtained(www).id }
    expect(chosen([wildcard, obtained(www)], [all, www])).toEqual(each)
    expect(chosen([obtained(www), wildcard], [www, all])).toEqual(each)
  })

  it('stays the obtained certificate, when another project of its account has an uploaded wildcard above it', () => {
    const [all, www] = [domainOf('*.shop.com', app('a', 'one')), domainOf('www.shop.com', app('b', 'one'))]
    const limited = uploaded(['*.shop.com'], 'one', { projectId: all.projectId })
    expect(chosen([limited, obtained(www)], [all, www])).toEqual({
      '*.shop.com': limited.id,
      'www.shop.com': obtained(www).id,
    })
    const whole = { ...limited, projectId: null }
    expect(chosen([whole, obtained(www)], [all, www])).toEqual({ '*.shop.com': whole.id, 'www.shop.com': whole.id })
  })

  it('is not a wildcard that would have to cover two labels', () => {
    const deep = domainOf('a.b.shop.com', app('a', 'one'))
    const wildcard = domainOf('*.shop.com', app('a', 'one'))
    expect(chosen([uploaded(['*.shop.com', '*.com'], 'one')], [deep, wildcard])).toEqual({
      '*.shop.com': 'uploaded *.shop.com *.com',
    })
  })
})
