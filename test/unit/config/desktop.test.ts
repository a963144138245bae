import { expect, it } from 'vitest'
import { hasDesktop } from '../../../src/config/desktop.ts'

it('knows a desktop session by its variables, unless they are empty', () => {
  expect(hasDesktop({})).toBe(false)
  expect(hasDesktop({ DISPLAY: '' })).toBe(false)
  expect(hasDesktop({ DISPLAY: ':0' })).toBe(true)
  expect(hasDesktop({ WAYLAND_DISPLAY: 'wayland-0' })).toBe(true)
  expect(hasDesktop({ DBUS_SESSION_BUS_ADDRESS: 'unix:path=/run/user/1/bus' })).toBe(true)
})
