# Completion of callgate for PowerShell. Put this line into the file that $PROFILE names:
#   callgate completion powershell | Out-String | Invoke-Expression
Register-ArgumentCompleter -Native -CommandName callgate -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $words = @($commandAst.CommandElements | Where-Object { $_.Extent.EndOffset -lt $cursorPosition } |
        Select-Object -Skip 1 | ForEach-Object { if ($null -ne $_.Value) { $_.Value } else { $_.ToString() } })
    & $commandAst.CommandElements[0].Value __complete "=$wordToComplete" @words 2>$null | ForEach-Object {
        $value, $about = $_ -split "`t", 2
        if ($value -eq ':files') {
            [System.Management.Automation.CompletionCompleters]::CompleteFilename($wordToComplete)
        } else {
            $typed = if ($value -match '^[\w./:=@-]+$') { $value } else { "'" + $value.Replace("'", "''") + "'" }
            if (-not $about) { $about = $value }
            [System.Management.Automation.CompletionResult]::new($typed, $value, 'ParameterValue', $about)
        }
    }
}
