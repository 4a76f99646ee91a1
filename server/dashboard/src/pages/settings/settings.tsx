import { Outlet } from '@tanstack/react-router'
import { Page } from '../../ui/page/page.tsx'
import { Tabs } from '../../ui/page/tabs.tsx'

const tabs = [
  { to: '/settings/api-keys', label: 'API Keys' },
  { to: '/settings/certificates', label: 'Certificates' },
  { to: '/settings/sessions', label: 'Sessions' },
  { to: '/settings/account', label: 'Account' },
  { to: '/settings/audit-log', label: 'Audit log' },
] as const

export function Settings() {
  return (
    <Page title="Settings">
      <Tabs label="Settings" tabs={tabs} />
      <Outlet />
    </Page>
  )
}
