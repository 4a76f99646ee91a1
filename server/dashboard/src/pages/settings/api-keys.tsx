import type { ResponseBody } from '@fairlead/server/client'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { KeyRound, Plus } from 'lucide-react'
import { useState } from 'react'
import { api } from '../../data/client.ts'
import { apiKeysQuery } from '../../data/queries.ts'
import { Button } from '../../ui/controls/button.tsx'
import { Menu, MenuItem } from '../../ui/controls/menu.tsx'
import { Confirm } from '../../ui/dialogs/confirm-dialog.tsx'
import { SecretDialog } from '../../ui/dialogs/secret-dialog.tsx'
import { type Column, Table } from '../../ui/display/table.tsx'
import { Time } from '../../ui/display/time.tsx'
import { Panel } from '../../ui/page/page.tsx'
import { Queried } from '../../ui/page/query-view.tsx'
import { Empty } from '../../ui/page/states.tsx'
import { CreateKey } from './create-key.tsx'

type Key = ResponseBody<'apiKeys.list'>['api_keys'][number]

export function ApiKeys() {
  const keys = useQuery(apiKeysQuery)
  const [creating, setCreating] = useState(false)
  const [secret, setSecret] = useState<string>()
  const [chosen, setChosen] = useState<{ key: Key; to: 'rotate' | 'revoke' }>()
  const create = (
    <Button look="primary" icon={<Plus size={16} />} onClick={() => setCreating(true)}>
      Create new key
    </Button>
  )
  const columns: Column<Key>[] = [
    { title: 'Name', cell: (key) => <Name apiKey={key} /> },
    { title: 'May', cell: ({ preset, scopes }) => preset ?? scopes.join(', '), wide: true },
    {
      title: 'Projects',
      cell: ({ project_ids }) => (project_ids === null ? 'all' : project_ids.length),
      wide: true,
    },
    {
      title: 'Last used',
      cell: ({ last_used_at }) => (last_used_at === null ? 'never' : <Time at={last_used_at} />),
    },
    { title: 'Expires', cell: (key) => <Expiry apiKey={key} />, wide: true },
    {
      title: 'Action',
      align: 'right',
      cell: (key) =>
        key.revoked_at === null && (
          <Menu label={`Actions for ${key.name}`}>
            <MenuItem onSelect={() => setChosen({ key, to: 'rotate' })}>Rotate</MenuItem>
            <MenuItem danger onSelect={() => setChosen({ key, to: 'revoke' })}>
              Revoke
            </MenuItem>
          </Menu>
        ),
    },
  ]
  return (
    <>
      <Panel title="API Keys" actions={create} flush>
        <Queried query={keys} what="API keys">
          {(data) =>
            data.api_keys.length === 0 ? (
              <Empty title="No API key yet">
                <p>A key lets a pipeline or a program use the API in the name of this account.</p>
              </Empty>
            ) : (
              <Table label="API keys" rows={data.api_keys} keyOf={({ id }) => id} columns={columns} />
            )
          }
        </Queried>
      </Panel>
      <CreateKey open={creating} onOpenChange={setCreating} onCreated={setSecret} />
      {chosen?.to === 'revoke' && <Revoke apiKey={chosen.key} onDone={() => setChosen(undefined)} />}
      {chosen?.to === 'rotate' && (
        <Rotate
          apiKey={chosen.key}
          onDone={(key) => {
            setChosen(undefined)
            setSecret(key)
          }}
        />
      )}
      <SecretDialog title="Your new API key" secret={secret} onDone={() => setSecret(undefined)}>
        <p className="text-muted">
          Send it as <code>Authorization: Bearer &lt;key&gt;</code>, or store it as a secret of your repository.
        </p>
      </SecretDialog>
    </>
  )
}

function Name({ apiKey: { name, hint, revoked_at } }: { readonly apiKey: Key }) {
  return (
    <div className="flex items-center gap-2">
      <KeyRound size={14} className="shrink-0 text-muted" aria-hidden="true" />
      <div className="min-w-0">
        <p className={revoked_at === null ? '' : 'text-muted line-through'}>{name}</p>
        {hint !== null && <code className="text-[12px] text-muted">{hint}…</code>}
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

function Revoke({ apiKey, onDone }: { readonly apiKey: Key; readonly onDone: () => void }) {
  const queries = useQueryClient()
  const revoke = useMutation({
    mutationFn: () => api.apiKeys.delete({ params: { id: apiKey.id } }),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ['api-keys'] })
      onDone()
    },
  })
  return (
    <Confirm
      open
      onOpenChange={onDone}
      title={`Revoke ${apiKey.name}?`}
      action="Revoke key"
      busy={revoke.isPending}
      error={revoke.error}
      onConfirm={() => revoke.mutate()}
    >
      <p>Whatever uses it is refused from this moment on. This cannot be undone.</p>
    </Confirm>
  )
}

function Rotate({ apiKey, onDone }: { readonly apiKey: Key; readonly onDone: (key?: string) => void }) {
  const queries = useQueryClient()
  const rotate = useMutation({
    mutationFn: () => api.apiKeys.rotate({ params: { id: apiKey.id }, body: {} }),
    onSuccess: async ({ key }) => {
      await queries.invalidateQueries({ queryKey: ['api-keys'] })
      onDone(key)
    },
  })
  return (
    <Confirm
      open
      onOpenChange={() => onDone()}
      title={`Rotate ${apiKey.name}?`}
      action="Rotate key"
      busy={rotate.isPending}
      error={rotate.error}
      onConfirm={() => rotate.mutate()}
    >
      <p>You get a new key with the same rights. The old one goes on for 24 hours, so that you can replace it.</p>
    </Confirm>
  )
}
