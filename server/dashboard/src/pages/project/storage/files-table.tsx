import type { ResponseBody } from '@fairlead/server/client'
import { File as FileIcon } from 'lucide-react'
import { CopyButton } from '../../../ui/controls/copy-button.tsx'
import { Menu, MenuItem } from '../../../ui/controls/menu.tsx'
import { formatBytes } from '../../../ui/display/bytes.ts'
import { type Column, Table } from '../../../ui/display/table.tsx'
import { Time } from '../../../ui/display/time.tsx'
import { Empty } from '../../../ui/page/states.tsx'

type StoredFile = ResponseBody<'storage.list'>['files'][number]

interface FilesTableProps {
  readonly files: readonly StoredFile[]
  readonly onDelete: (file: StoredFile) => void
}

export function FilesTable({ files, onDelete }: FilesTableProps) {
  const actions: Column<StoredFile> = {
    title: 'Action',
    align: 'right',
    cell: (file) => (
      <div className="flex justify-end gap-1">
        <CopyButton text={new URL(file.url, location.href).href} label="Copy link" />
        <Menu label={`Actions for ${file.name}`}>
          <MenuItem danger onSelect={() => onDelete(file)}>
            Delete
          </MenuItem>
        </Menu>
      </div>
    ),
  }
  return (
    <Table
      label="Files"
      rows={files}
      keyOf={({ id }) => id}
      columns={[...columns, actions]}
      empty={
        <Empty title="No file yet">
          <p>Every file gets a URL. Anyone who has the URL can download the file.</p>
        </Empty>
      }
    />
  )
}

const columns: readonly Column<StoredFile>[] = [
  {
    title: 'Name',
    cell: ({ name, url }) => (
      <a href={url} className="inline-flex items-center gap-2 break-all hover:text-accent">
        <FileIcon size={14} className="shrink-0 text-muted" aria-hidden="true" />
        {name}
      </a>
    ),
  },
  { title: 'Size', cell: ({ size }) => <span className="whitespace-nowrap">{formatBytes(size)}</span> },
  { title: 'Type', wideOnly: true, cell: ({ content_type }) => content_type },
  { title: 'Uploaded', wideOnly: true, cell: ({ uploaded_at }) => <Time at={uploaded_at} /> },
]
