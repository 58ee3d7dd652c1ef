complete --keep-order --exclusive --command kubectl-csi --arguments "(COMPLETE=fish kubectl-csi -- (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token))"
