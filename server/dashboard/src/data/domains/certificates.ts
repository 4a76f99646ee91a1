import type { ResponseBody } from '@fairlead/server/client'
import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query'
import { api } from '../client.ts'
import { cursorAfter, idlePollMs, pageAfter, pollUnlessRejected } from '../polling.ts'

export type Certificate = ResponseBody<'certificates.list'>['certificates'][number]

export const certificatesQuery = infiniteQueryOptions({
  queryKey: ['certificates'],
  queryFn: ({ pageParam, signal }) => api.certificates.list({ query: pageAfter(pageParam), signal }),
  initialPageParam: '',
  getNextPageParam: ({ certificates }) => cursorAfter(certificates),
  refetchInterval: idlePollMs,
})

/** The certificates of a project that need attention. */
export const certificateProblemsQuery = (projectId: string) =>
  queryOptions({
    queryKey: ['projects', projectId, 'certificate-problems'],
    queryFn: ({ signal }) => api.certificates.problems({ params: { project_id: projectId }, signal }),
    refetchInterval: ({ state }) => pollUnlessRejected(state, idlePollMs),
  })

/** The parts of a PEM text, such as a file with a certificate and its key. */
export interface PemParts {
  /** The certificate with its issuers' certificates; empty without a certificate. */
  readonly certificates: string
  readonly privateKey: string
}

/** Returns the blocks of a PEM text (RFC 7468) by their kind; `undefined` when it has neither certificates nor a key. */
export function pemPartsOf(text: string): PemParts | undefined {
  const blocks = text.match(/-----BEGIN ([A-Z0-9 ]+)-----[\s\S]*?-----END \1-----/g) ?? []
  const joined = (isWanted: (block: string) => boolean) =>
    blocks
      .filter(isWanted)
      .map((block) => `${block}\n`)
      .join('')
  const certificates = joined((block) => block.startsWith('-----BEGIN CERTIFICATE-----'))
  const privateKey = joined((block) => /^-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----/.test(block))
  return certificates === '' && privateKey === '' ? undefined : { certificates, privateKey }
}
