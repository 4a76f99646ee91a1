import type { Domain } from '../../../../data/domains/domains.ts'
import { CopyText } from '../../../../ui/controls/copy-text.tsx'
import { type Column, Table } from '../../../../ui/display/table.tsx'
import { Empty } from '../../../../ui/page/states.tsx'

type DnsRecord = Domain['records'][number]

const purposes = {
  traffic: 'leads visitors here',
  ownership: 'proves that the name is yours',
  certificate: 'lets the server obtain the certificate',
} as const

/** The DNS records to set for a domain, to be copied into the DNS provider's form. */
export function DomainRecords({ domain: { records } }: { readonly domain: Domain }) {
  return (
    <>
      <Table
        label="DNS records"
        rows={records}
        keyOf={({ type, name, value }) => `${type} ${name} ${value}`}
        columns={columns}
        empty={<Empty title="No records to set" />}
      />
      {records.length > 0 && (
        <p className="border-line border-t px-4 py-3 text-[13px] text-muted">
          Set them where the DNS of the domain is managed. Many forms want the name without the domain at its end, such
          as <code>www</code> for www.example.com.
        </p>
      )}
    </>
  )
}

const columns: readonly Column<DnsRecord>[] = [
  { title: 'Type', cell: ({ type }) => <code>{type}</code> },
  { title: 'Name', cell: ({ type, name }) => <CopyText text={name} label={`the name of the ${type} record`} /> },
  {
    title: 'Value',
    cell: ({ type, value, purpose }) => (
      <>
        <CopyText text={value} label={`the value of the ${type} record`} />
        <p className="text-[12px] text-muted md:hidden">{purposes[purpose]}</p>
      </>
    ),
  },
  { title: 'Purpose', wideOnly: true, cell: ({ purpose }) => purposes[purpose] },
]
