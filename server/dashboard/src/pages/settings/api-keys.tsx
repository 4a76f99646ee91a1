import type { ResponseBody } from '@fairlead/server/client'
import { useQuery } from '@tanstack/react-query'
import { KeyRound, Plus } from 'lucide-react'
import { useState } from 'react'
import { apiKeysQuery } from '../../data/queries.ts'
import { Button } from '../../ui/controls/button.tsx'
import { Menu, MenuItem } from '../../ui/controls/menu.tsx'
import { Dialog } from '../../ui/dialogs/dialog.tsx'
import { SecretDialog } from '../../ui/dialogs/secret-dialog.tsx'
import { useLinkedDialog } from '../../ui/dialogs/use-linked-dialog.ts'
import { RunLink } from '../../ui/display/run-link.tsx'
import { type Column, Table } from '../../ui/display/table.tsx'
import { Time } from '../../ui/display/time.tsx'
import { Panel } from '../../ui/page/page.tsx'
import { QueryView } from '../../ui/page/query-view.tsx'
import { Empty } from '../../ui/page/states.tsx'
import { RevokeKey, RotateKey } from './api-key-actions.tsx'
import { CreateKey } from './create-key.tsx'

type Key = ResponseBody<'apiKeys.list'>['api_keys'][number]

/** The open dialog of an action on a key. */
interface OpenDialog {
  readonly action: 'rotate' | 'revoke'
  readonly key: Key
}

export function ApiKeys() {
  const keys = useQuery(apiKeysQuery)
  const [dialog, setDialog] = useState<OpenDialog>()
  const [isCreating, setCreating] = useLinkedDialog()
  const [secret, setSecret] = useState<string>()
  const close = () => {
    setDialog(undefined)
    setCreating(false)
  }
  const showSecret = (key: string) => {
    close()
    setSecret(key)
  }
  return (
    <>
      <Panel
        title="API Keys"
        flush
        actions={
          <Button variant="primary" icon={<Plus size={16} />} onClick={() => setCreating(true)}>
            Create new key
          </Button>
        }
      >
        <QueryView query={keys} label="API keys">
          {(data) => (
            <Table
              label="API keys"
              rows={data.api_keys}
              keyOf={({ id }) => id}
              columns={[...columns, actionColumn((action, key) => setDialog({ action, key }))]}
              empty={
                <Empty title="No API key yet">
                  <p>A key lets a pipeline or a program use the API in the name of this account.</p>
                </Empty>
              }
            />
          )}
        </QueryView>
      </Panel>
      <Dialog open={isCreating} onClose={close} title="New API key">
        <CreateKey onCancel={close} onCreated={showSecret} />
      </Dialog>
      {dialog?.action === 'revoke' && <RevokeKey apiKey={dialog.key} onClose={close} />}
      {dialog?.action === 'rotate' && <RotateKey apiKey={dialog.key} onClose={close} onRotated={showSecret} />}
      <SecretDialog title="Your new API key" secret={secret} onDone={() => setSecret(undefined)}>
        <p className="text-muted">
          Send it as <code>Authorization: Bearer &lt;key&gt;</code>, or store it as a secret of your repository.
        </p>
      </SecretDialog>
    </>
  )
}

const columns: readonly Column<Key>[] = [
  { title: 'Name', cell: (key) => <Name apiKey={key} /> },
  { title: 'Permissions', cell: ({ preset, scopes }) => preset ?? scopes.join(', '), wideOnly: true },
  {
    title: 'Projects',
    cell: ({ project_ids }) => (project_ids === null ? 'all' : project_ids.length),
    wideOnly: true,
  },
  {
    title: 'Last used',
    cell: ({ last_used_at }) => (last_used_at === null ? 'never' : <Time at={last_used_at} />),
  },
  { title: 'Expires', cell: (key) => <Expiry apiKey={key} />, wideOnly: true },
]

function actionColumn(onAction: (action: 'rotate' | 'revoke', key: Key) => void): Column<Key> {
  return {
    title: 'Action',
    align: 'right',
    cell: (key) =>
      key.revoked_at === null && (
        <Menu label={`Actions for ${key.name}`}>
          {key.workflow === null && <MenuItem onSelect={() => onAction('rotate', key)}>Rotate</MenuItem>}
          <MenuItem danger onSelect={() => onAction('revoke', key)}>
            Revoke
          </MenuItem>
        </Menu>
      ),
  }
}

function Name({ apiKey: { name, hint, revoked_at, workflow } }: { readonly apiKey: Key }) {
  return (
    <div className="flex items-center gap-2">
      <KeyRound size={14} className="shrink-0 text-muted" aria-hidden="true" />
      <div className="min-w-0">
        <p className={revoked_at === null ? '' : 'text-muted line-through'}>{name}</p>
        {workflow !== null && (
          <p className="text-[12px] text-muted">
            <RunLink url={workflow.run_url}>run of a workflow of {workflow.repository ?? 'a trusted service'}</RunLink>
          </p>
        )}
        <code className="text-[12px] text-muted">{hint}…</code>
      </div>
    </div>
  )
}

function Expiry({ apiKey: { expires_at, revoked_at } }: { readonly apiKey: Key }) {
  if (revoked_at !== null) {
    return (
      <span className="text-muted">
        revoked <Time at={revoked_at} />
      </span>
    )
  }
  return expires_at === null ? 'never' : <Time at={expires_at} />
}
