import type { ResponseBody } from '@fairlead/server/client'
import { useInfiniteQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { deliveriesQuery } from '../../data/queries.ts'
import { Dialog } from '../../ui/dialogs/dialog.tsx'
import { DottedName } from '../../ui/display/dotted-name.tsx'
import { Status } from '../../ui/display/status.tsx'
import { type Column, Table } from '../../ui/display/table.tsx'
import { Time } from '../../ui/display/time.tsx'
import { inputClass } from '../../ui/forms/field.tsx'
import { Panel } from '../../ui/page/page.tsx'
import { PagedView } from '../../ui/page/paged-view.tsx'
import { Empty } from '../../ui/page/states.tsx'
import { DeliveryView } from './delivery-view.tsx'

type Delivery = ResponseBody<'deliveries.list'>['deliveries'][number]
const filters = ['pending', 'succeeded', 'failed'] as const
type Filter = (typeof filters)[number]

/** The deliveries to an endpoint. Each opens with its requests and responses, and can be sent again. */
export function Deliveries({ webhookId }: { readonly webhookId: string }) {
  const [filter, setFilter] = useState<Filter>()
  const [opened, setOpened] = useState<string>()
  const deliveries = useInfiniteQuery(deliveriesQuery(webhookId, filter))
  return (
    <Panel title="Deliveries" flush actions={<FilterSelect value={filter} onChange={setFilter} />}>
      <PagedView query={deliveries} label="deliveries">
        {(pages) => (
          <Table
            label="Deliveries"
            rows={pages.flatMap((page) => page.deliveries)}
            keyOf={({ id }) => id}
            columns={[eventColumn(setOpened), ...columns]}
            empty={
              <Empty title="Nothing has been sent yet.">
                <p>Send a test to see one.</p>
              </Empty>
            }
          />
        )}
      </PagedView>
      <Dialog
        open={opened !== undefined}
        onClose={() => setOpened(undefined)}
        title="Delivery"
        description={<code className="text-[12px]">{opened}</code>}
      >
        {opened !== undefined && <DeliveryView webhookId={webhookId} id={opened} />}
      </Dialog>
    </Panel>
  )
}

interface FilterSelectProps {
  readonly value: Filter | undefined
  readonly onChange: (filter: Filter | undefined) => void
}

function FilterSelect({ value, onChange }: FilterSelectProps) {
  return (
    <select
      aria-label="Filter by status"
      className={`${inputClass} !h-7 !w-auto`}
      value={value ?? ''}
      onChange={({ target }) => onChange(filters.find((each) => each === target.value))}
    >
      <option value="">all</option>
      {filters.map((each) => (
        <option key={each} value={each}>
          {each}
        </option>
      ))}
    </select>
  )
}

function eventColumn(onOpen: (id: string) => void): Column<Delivery> {
  return {
    title: 'Event',
    cell: ({ id, event }) => (
      <button type="button" className="text-left font-medium hover:text-accent" onClick={() => onOpen(id)}>
        <DottedName name={event} />
      </button>
    ),
  }
}

const columns: readonly Column<Delivery>[] = [
  { title: 'Status', cell: ({ status }) => <Status value={status} /> },
  {
    title: 'Last response',
    wideOnly: true,
    cell: ({ last_status, last_error }) => last_error ?? last_status ?? '–',
  },
  { title: 'Attempts', wideOnly: true, cell: ({ attempts }) => attempts },
  { title: 'Created', align: 'right', cell: ({ created_at }) => <Time at={created_at} /> },
]
