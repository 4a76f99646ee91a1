import { z } from 'zod'
import type { Declarations } from './declaration.ts'
import { required, timestamp } from './fields.ts'

/** All but `pending` are served. */
export const domainStatuses = ['pending', 'active', 'failing'] as const
export type DomainStatus = (typeof domainStatuses)[number]

export const domainRecordTypes = ['A', 'AAAA', 'CNAME', 'TXT'] as const
export const domainRecordPurposes = ['traffic', 'ownership', 'certificate'] as const
export const domainSeverities = ['error', 'warning'] as const

const record = z.object({
  type: z.enum(domainRecordTypes),
  name: z.string().describe('The whole name, without a dot at its end.'),
  value: z.string(),
  purpose: z
    .enum(domainRecordPurposes)
    .describe(
      '`traffic` leads visitors here, `ownership` proves that the name is yours, `certificate` lets the server obtain the ' +
        'certificate of a wildcard.',
    ),
})

const problem = z.object({
  code: z.string().describe('Stable, for programs.'),
  message: z.string().describe('What is wrong, and what to do.'),
  severity: z
    .enum(domainSeverities)
    .describe('A domain with an `error` is not verified; a `warning` says what may fail.'),
})

const domain = z.object({
  id: z.string().describe('`dom_…`.'),
  app_id: z.string(),
  name: z.string().describe('In lower case, with A-labels (`xn--…`); `*.example.com` for a wildcard.'),
  unicode_name: z.string().describe('The same name in its readable form.'),
  status: z
    .enum(domainStatuses)
    .describe(
      '`pending`: not verified, and not served. `active`: served. `failing`: still served, but its DNS is no longer' +
        ' right.',
    ),
  primary: z.boolean().describe("True for the domain to which the app's other domains redirect."),
  redirect: z.boolean().describe('True when visitors are sent to the primary domain (308).'),
  records: z.array(record).describe('The DNS records to set.'),
  problems: z.array(problem).describe('The findings of the last check.'),
  checked_at: timestamp.nullable().describe('The time of the last check; `null` before the first.'),
  next_check_at: timestamp.nullable().describe('The time of the next check; `null` when it waits for a request.'),
  certificate: z
    .object({ id: z.string().describe('`cert_…`.'), status: z.string(), expires_at: timestamp.nullable() })
    .nullable()
    .describe('The certificate in use; `null` without a certificate, or when another proxy has it.'),
  url: z.string().describe('The address of the app at this domain.'),
  created_at: timestamp,
})

export const domainOperations = {
  'domains.list': {
    summary: 'List the domains of an app',
    description: 'Newest first, with the DNS records to set and the findings of the last check.',
    response: z.object({
      domains: z.array(domain),
      refusal: z.string().nullable().describe('Why apps of this server cannot have domains; `null` when they can.'),
    }),
  },
  'domains.create': {
    summary: 'Add a domain to an app',
    description:
      'Answers with the DNS records to set. The server checks the domain at once and again later, and serves it as ' +
      'soon as its DNS is right. A name that another account has, or had last, also needs the TXT record. Needs a ' +
      'server with `FAIRLEAD_DOMAIN` or `FAIRLEAD_APPS_DOMAIN`.',
    body: z
      .object({
        name: z
          .string(required('a string'))
          .max(1000, 'must be at most 1000 characters')
          .describe('Such as `www.example.com`, or `*.example.com` for all names directly below it.'),
        redirect: z
          .boolean('must be true or false')
          .default(false)
          .describe('True sends its visitors to the primary domain of the app (308), path and query included.'),
      })
      .meta({ examples: [{ name: 'www.example.com', redirect: true }] }),
    response: domain,
  },
  'domains.get': {
    summary: 'Read a domain',
    description: 'One domain, with the DNS records to set and the findings of the last check.',
    response: domain,
  },
  'domains.update': {
    summary: 'Change a domain',
    description: 'Omitted fields stay. The first verified domain becomes primary automatically.',
    body: z.object({
      primary: z
        .literal(true, 'must be true: make another domain primary instead')
        .optional()
        .describe('Makes it the primary domain of the app. It must be verified, and not a wildcard.'),
      redirect: z
        .boolean('must be true or false')
        .optional()
        .describe('The primary domain and wildcards do not redirect.'),
    }),
    response: domain,
  },
  'domains.delete': {
    summary: 'Remove a domain',
    description: 'It is no longer served, and its name is free at once.',
  },
  'domains.check': {
    summary: 'Check a domain now',
    description:
      'Checks DNS and answers with the findings, which may take some seconds. A domain whose DNS is right is served' +
      ' from then on. At most 6 checks of a name in a minute.',
    response: domain,
  },
} as const satisfies Declarations<'domains'>
