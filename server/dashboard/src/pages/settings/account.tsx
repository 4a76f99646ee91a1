import { useMutation, useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { dashboardApi } from '../../data/client.ts'
import { accountQuery, sessionQuery } from '../../data/queries.ts'
import { DescriptionList } from '../../ui/display/description-list.tsx'
import { Meter } from '../../ui/display/meter.tsx'
import { Time } from '../../ui/display/time.tsx'
import { TextField } from '../../ui/forms/field.tsx'
import { Form } from '../../ui/forms/form.tsx'
import { secretOf } from '../../ui/forms/values.ts'
import { Panel } from '../../ui/page/page.tsx'
import { QueryView } from '../../ui/page/query-view.tsx'
import { UsagePanel } from './usage.tsx'

export function Account() {
  const account = useQuery(accountQuery)
  const session = useQuery(sessionQuery)
  return (
    <>
      <Panel title="Account">
        <QueryView query={account} label="the account">
          {({ id, name, plan, rate_limit }) => (
            <div className="grid gap-4">
              <DescriptionList
                items={[
                  ['Name', name],
                  ['Id', <code key="id">{id}</code>],
                  ['Plan', plan],
                  ['Signed in as', session.data?.user.email ?? '…'],
                ]}
              />
              <Meter
                label="API requests in this hour"
                value={rate_limit.used}
                max={rate_limit.limit}
                text={`${rate_limit.used.toLocaleString('en')} of ${rate_limit.limit.toLocaleString('en')}`}
              />
              {rate_limit.reset !== null && (
                <p className="text-[13px] text-muted">
                  The count resets <Time at={new Date(rate_limit.reset * 1000).toISOString()} />. Requests of the
                  dashboard are counted apart.
                </p>
              )}
            </div>
          )}
        </QueryView>
      </Panel>
      <UsagePanel />
      <Panel title="Password">
        <ChangePassword />
      </Panel>
    </>
  )
}

function ChangePassword() {
  // A new React key empties the form after the password has been changed.
  const [formKey, setFormKey] = useState(0)
  const change = useMutation({
    mutationFn: (values: FormData) =>
      dashboardApi.password.change({
        body: {
          current_password: secretOf(values, 'current_password'),
          new_password: secretOf(values, 'new_password'),
        },
      }),
    onSuccess: () => setFormKey(formKey + 1),
  })
  return (
    <div className="max-w-sm">
      <Form mutation={change} key={formKey} submit="Change password">
        <TextField label="Current password" name="current_password" type="password" autoComplete="current-password" />
        <TextField
          label="New password"
          name="new_password"
          type="password"
          autoComplete="new-password"
          hint="At least 12 characters. Your other sessions end."
        />
      </Form>
      {change.isSuccess && <output className="text-good">The password has been changed.</output>}
    </div>
  )
}
