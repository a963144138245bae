import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { fromMountHelper } from '../../../src/cli/mount-helper.ts'
import { MOUNT_OPTION_KEYS, MOUNT_OPTIONS, optionName } from '../../../src/config/options.ts'

const of = (options: string, ...more: string[]) =>
  fromMountHelper(['work', '/mnt/x', ...more, '-o', options])

describe('the helper of mount(8)', () => {
  test('mounts the profile that stands for the device', () => {
    const target = ['mount', '--', 'work:/mnt/x']
    expect(fromMountHelper(['work', '/mnt/x'])).toEqual(target)
    expect(fromMountHelper(['none', '/mnt/x', '-o', 'rw'])).toEqual(['mount', '--', '/mnt/x'])
    expect(fromMountHelper(['work', '/mnt/x', '-n', '-v', '-t', 'bagfs', '-o', 'rw'])).toEqual(
      target,
    )
    expect(fromMountHelper(['work', '/mnt/x', '-f', '-o', 'rw'])).toBeUndefined()
  })

  test('takes the options of the fstab: those of a drive, and leaves out those of others', () => {
    const fstab = 'rw,noexec,nosuid,nodev,_netdev,user,noauto,x-systemd.automount,x-a=b'
    expect(of(`${fstab},cache-size=20GB,write-back`)).toEqual([
      'mount',
      '--cache-size=20GB',
      '--write-back',
      '--',
      'work:/mnt/x',
    ])
    const flags = ['--read-only', '--allow-other', '--no-log-json', '--umask=077']
    expect(of('ro,allow_other,log-json=false,umask=077')).toEqual([
      'mount',
      ...flags,
      '--',
      'work:/mnt/x',
    ])
  })

  test('turns off by noNAME what a profile turns on, and leaves what mount(8) denies so', () => {
    const flags = ['--no-write-back', '--no-log-json', '--no-allow-other']
    expect(of('nowrite-back,no-log-json,noallow_other,noatime,noexec')).toEqual([
      ...['mount', ...flags],
      ...['--', 'work:/mnt/x'],
    ])
    for (const option of [
      'nocache-size',
      'noforeground',
      'nowrite-back=true',
      'no',
      'nononsense',
    ]) {
      expect(() => of(option)).toThrow('is no option of a drive.')
    }
  })

  test('knows every option of the table that is not about where the drive runs', () => {
    for (const key of MOUNT_OPTION_KEYS) {
      if (key === 'foreground' || key === 'background') continue
      const option = optionName(key)
      const written = MOUNT_OPTIONS[key].kind === 'flag' ? option : `${option}=v`
      expect(of(written)?.[1]).toBe(`--${written}`)
    }
  })

  test.each(['nonsense', 'foreground', 'write-back=maybe', 'Bearer 0123456789=x'])(
    'refuses what is no option, unless it is to be sloppy: %s',
    (option) => {
      expect(() => of(option)).toThrow('is no option of a drive.')
      expect(() => of(option)).not.toThrow('0123456789')
      if (!option.includes('maybe')) expect(of(option, '-s')).toEqual(of('rw'))
    },
  )

  test.each([[[]], [['work']], [['work', '/mnt/x', 'more']], [['work', '/mnt/x', '-Z']]])(
    'refuses arguments that mount(8) does not give: %j',
    (args) => {
      expect(() => fromMountHelper(args)).toThrow('mount.bagfs')
    },
  )

  test('knows a profile by the path that mount(8) makes of its name, where it runs beside a file of that name', () => {
    const dir = process.cwd()
    const asPath = fromMountHelper([join(dir, 'work'), '/mnt/x'])
    expect(asPath).toEqual(fromMountHelper(['work', '/mnt/x']))
    expect(() => fromMountHelper([join(dir, 'of/work'), '/mnt/x'])).toThrow('the name of a profile')
  })

  test('refuses what is no name of a profile', () => {
    expect(() => fromMountHelper(['/dev/sda1', '/mnt/x'])).toThrow('the name of a profile')
  })
})
