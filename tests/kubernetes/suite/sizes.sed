# What differs from the descriptions beside it where a size is a limit and the share is mounted over NFS.
# driver.yaml: a copy has its own size; volumes have room for the files of a spec, which takes many minutes for 100 MiB in the guest;
# mounts have options.
/FSResizeFromSourceNotSupported/d
s/^  SupportedSizeRange: .*/  SupportedSizeRange: {Min: 4Mi}\n  SupportedMountOption: {noatime: {}}/
s/^  MaxFileSize: .*/  MaxFileSize: 1048576/
# storageclass.yaml: there is no volume without a limit.
s/share: \/srv}/share: \/srv, quota: enforce}/
