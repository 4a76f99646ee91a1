import { ApiError } from '@fairlead/server/client'
import type { DashboardResponse } from '@fairlead/server/dashboard-client'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { dashboardApi, isClientError } from '../../data/client.ts'
import { apiKeysQuery, sessionQuery } from '../../data/queries.ts'
import { Button } from '../../ui/controls/button.tsx'
import { ButtonRow } from '../../ui/controls/button-row.tsx'
import { DescriptionList } from '../../ui/display/description-list.tsx'
import { Time } from '../../ui/display/time.tsx'
import { TextField } from '../../ui/forms/field.tsx'
import { Form } from '../../ui/forms/form.tsx'
import { textOf } from '../../ui/forms/values.ts'
import { QueryView } from '../../ui/page/query-view.tsx'
import { ErrorAlert } from '../../ui/page/states.tsx'
import { SignInFrame } from './sign-in-frame.tsx'

/**
 * The page on which a user approves or refuses a `fairlead login`. The code is typed, or in the fragment of the URL,
 * which browsers do not send.
 */
export function DeviceLogin() {
  const [code, setCode] = useState(() => location.hash.slice(1))
  const session = useQuery(sessionQuery)
  const login = useQuery({
    queryKey: ['device', code],
    queryFn: ({ signal }) => dashboardApi.device.check({ body: { user_code: code }, signal }),
    enabled: code !== '' && session.data !== undefined,
    staleTime: Number.POSITIVE_INFINITY,
    retry: (failures, error) => failures < 2 && !isClientError(error),
  })
  const decision = useDecision()
  if (decision.isSuccess) return <Decided approved={decision.data} />
  const isUnknown = login.error instanceof ApiError && login.error.code === 'not_found'
  if (code === '' || isUnknown) return <EnterCode isUnknown={isUnknown} onEntered={setCode} />
  return (
    <SignInFrame title="Approve a login?" lead="A command asks for a key of this server.">
      <QueryView query={login} label="the login">
        {(found) => (
          <Waiting
            login={found}
            signedIn={session.data}
            decide={(approved) => decision.mutate({ code, approved })}
            pending={decision.isPending ? decision.variables.approved : undefined}
            error={decision.error}
          />
        )}
      </QueryView>
    </SignInFrame>
  )
}

function useDecision() {
  const queryClient = useQueryClient()
  return useMutation({
    mutationFn: async ({ code, approved }: { readonly code: string; readonly approved: boolean }) => {
      const body = { user_code: code }
      await (approved ? dashboardApi.device.approve({ body }) : dashboardApi.device.deny({ body }))
      return approved
    },
    onSuccess: () => queryClient.invalidateQueries({ queryKey: apiKeysQuery.queryKey }),
  })
}

interface WaitingProps {
  readonly login: DashboardResponse<'device.check'>
  readonly signedIn: DashboardResponse<'session.get'> | undefined
  readonly decide: (approved: boolean) => void
  /** The decision under way. */
  readonly pending: boolean | undefined
  readonly error: unknown
}

function Waiting({ login, signedIn, decide, pending, error }: WaitingProps) {
  return (
    <>
      <p>The command shows this code. If it shows another code, refuse.</p>
      <p className="my-4 text-center font-mono font-semibold text-2xl tracking-widest">{login.user_code}</p>
      <DescriptionList
        items={[
          ['Machine', login.name],
          ['Address', login.address],
          ['Begun', <Time key="begun" at={login.created_at} />],
          ['Account', signedIn?.account.name ?? '…'],
          ['Signed in as', signedIn?.user.email ?? '…'],
        ]}
      />
      <p className="mt-4">
        The key may do everything with all projects of this account: deploy, read logs, change and delete. It cannot
        manage keys or users, and it is valid until you revoke it under API keys.
      </p>
      <p className="mt-2 text-muted">Approve only a login that you have just begun yourself.</p>
      {error != null && (
        <div className="mt-4">
          <ErrorAlert error={error} />
        </div>
      )}
      <ButtonRow>
        <Button onClick={() => decide(false)} busy={pending === false} disabled={pending !== undefined}>
          Refuse
        </Button>
        <Button variant="primary" onClick={() => decide(true)} busy={pending === true} disabled={pending !== undefined}>
          Approve
        </Button>
      </ButtonRow>
    </>
  )
}

function EnterCode({
  isUnknown,
  onEntered,
}: {
  readonly isUnknown: boolean
  readonly onEntered: (code: string) => void
}) {
  const enter = (values: FormData) => onEntered(textOf(values, 'code'))
  return (
    <SignInFrame
      title={isUnknown ? 'Code not valid' : 'Approve a login'}
      lead={
        isUnknown
          ? 'No login waits under this code: it was used, or has expired. Run fairlead login again.'
          : 'Type the code that fairlead login shows.'
      }
    >
      <Form mutation={{ mutate: enter, isPending: false, error: null }} submit="Continue">
        <TextField label="Code" name="code" autoComplete="off" placeholder="XXXX-XXXX" className="font-mono" />
      </Form>
    </SignInFrame>
  )
}

function Decided({ approved }: { readonly approved: boolean }) {
  return (
    <SignInFrame
      title={approved ? 'Login approved' : 'Login refused'}
      lead={approved ? 'Go back to the terminal: the command goes on by itself.' : 'The command gets no key.'}
    >
      <Link to="/settings/api-keys" className="text-accent underline">
        {approved ? 'API keys of this account' : 'To the dashboard'}
      </Link>
    </SignInFrame>
  )
}
