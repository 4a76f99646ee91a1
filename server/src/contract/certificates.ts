import { z } from 'zod'
import type { Declarations } from './declaration.ts'
import { required, timestamp } from './fields.ts'

/** Automatic certificates come from the operator's authority, uploaded certificates from their owner. */
export const certificateSources = ['automatic', 'uploaded'] as const
export type CertificateSource = (typeof certificateSources)[number]

/** Visitors get `valid` and `failing` certificates. */
export const certificateStatuses = ['pending', 'valid', 'failing', 'expired', 'revoked'] as const
export type CertificateStatus = (typeof certificateStatuses)[number]

export const certificateFailure = z.object({
  code: z.string().describe('Stable, for programs.'),
  message: z.string().describe('What is wrong, and what to do.'),
})
export type CertificateFailure = z.output<typeof certificateFailure>

const certificate = z.object({
  id: z.string().describe('`cert_…`.'),
  names: z.array(z.string()).describe('In lower case, with A-labels (`xn--…`); `*.example.com` for a wildcard.'),
  source: z
    .enum(certificateSources)
    .describe('`automatic`: obtained and renewed by the server. `uploaded`: uploaded by its owner.'),
  status: z
    .enum(certificateStatuses)
    .describe(
      '`pending`: not there yet. `valid`. `failing`: valid, but its renewal fails. `expired`. `revoked`: no longer ' +
        'served, and revoked at the authority.',
    ),
  project_id: z
    .string()
    .nullable()
    .describe("`null` for the server's certificates, and for uploaded certificates of the whole account."),
  app_id: z.string().nullable(),
  domain_id: z.string().nullable().describe('The domain of the app; `null` for all other certificates.'),
  issuer: z.string().nullable().describe('The name of its issuer; `null` before it is issued.'),
  serial: z.string().nullable().describe('Its serial number, in hexadecimal digits.'),
  not_before: timestamp.nullable(),
  expires_at: timestamp.nullable(),
  attempted_at: timestamp.nullable().describe('The time of the last attempt to obtain it, or to renew it.'),
  under_way: z.boolean().describe('True while an attempt to obtain, renew or revoke it is under way.'),
  next_attempt_at: timestamp.nullable().describe('The time of the next attempt; `null` for uploaded certificates.'),
  attempts: z.int().describe('The attempts that failed since it was obtained or renewed last.'),
  failure: certificateFailure.nullable().describe('Why the last attempt failed; `null` when it did not.'),
  revocation_requested_at: timestamp
    .nullable()
    .describe(
      'The time at which its revocation was requested. It is revoked when another certificate has replaced it.',
    ),
  created_at: timestamp,
})

const certificateProblem = z.object({
  id: z.string().describe('`cert_…`.'),
  names: z.array(z.string()),
  app_id: z.string().nullable(),
  expires_at: timestamp.nullable().describe('`null` for a certificate that was never issued.'),
  failure: certificateFailure.nullable(),
})

const pem = (most: number) => z.string(required('a string')).max(most, `must be at most ${most} characters`)

export const certificateOperations = {
  'certificates.list': {
    summary: 'List certificates',
    description:
      "The certificates of the account's apps, and its uploaded certificates, newest first. The operator's account " +
      "also sees the server's certificates: the dashboard's certificate, and the wildcard of the apps.",
    response: z.object({ certificates: z.array(certificate) }),
  },
  'certificates.problems': {
    summary: 'List certificates in danger',
    description:
      'The certificates of the project that need attention, as `certificate.failed` has reported, the first to ' +
      'expire first; at most 20. The list of certificates has all.',
    response: z.object({ problems: z.array(certificateProblem) }),
  },
  'certificates.get': {
    summary: 'Read a certificate',
    description: 'One certificate, with its last and its next attempt. Its private key is never returned.',
    response: certificate,
  },
  'certificates.create': {
    summary: 'Upload a certificate',
    description:
      'The server uses it for all domains of the account that it covers, in place of an automatic certificate, as ' +
      'long as it is valid. The server does not renew it: upload the next certificate before it expires, and delete' +
      ' this one.',
    body: z
      .object({
        certificate: pem(100_000).describe(
          "In PEM: the certificate itself, followed by its issuers' certificates in their order.",
        ),
        private_key: pem(20_000).describe('In PEM, not encrypted: RSA with 2048 to 4096 bits, or ECDSA.'),
        project_id: z
          .string()
          .nullish()
          .describe('Limits it to the names of this project; `null` for the whole account.'),
      })
      .meta({
        examples: [
          {
            certificate: '-----BEGIN CERTIFICATE-----\n…\n-----END CERTIFICATE-----\n',
            private_key: '-----BEGIN PRIVATE KEY-----\n…\n-----END PRIVATE KEY-----\n',
          },
        ],
      }),
    response: certificate,
  },
  'certificates.renew': {
    summary: 'Renew a certificate now',
    description:
      'The next attempt begins at once, unless one is under way (see `under_way` in the answer), or the authority ' +
      'has asked to wait. Not for uploaded certificates.',
    response: certificate,
  },
  'certificates.revoke': {
    summary: 'Revoke a certificate',
    description:
      'For a private key that others may have. If its names are still served, the server first replaces it by a ' +
      'certificate with a new key, and then revokes it at the authority. An uploaded certificate is revoked by its ' +
      'issuer: delete it here.',
    response: certificate,
  },
  'certificates.delete': {
    summary: 'Delete an uploaded certificate',
    description: 'The server stops using it at once, and obtains another certificate if its names are still served.',
  },
} as const satisfies Declarations<'certificates'>
